package httpapi

import (
	"strings"
	"sync"

	"hanjul/pkg/pass"
)

// passesKept is half of the passes that are remembered; with the user's id of 256 bytes each takes about 1 KiB.
const passesKept = 8192

// passes remembers genuine passes by their whole text, those that this process has signed and those whose signature it has found good, so
// that a signature is looked at once: it is the dearest part of an order. What a pass allows is not remembered. Whether it has lapsed, was
// revoked or was used is asked of the line each time, by bind. Safe for concurrent use.
type passes struct {
	verifier pass.Verifier

	mu         sync.Mutex
	young, old map[string]pass.Pass // young becomes old when it is full, and old is forgotten
}

func newPasses(verifier pass.Verifier) *passes {
	return &passes{verifier: verifier, young: map[string]pass.Pass{}}
}

// verify is the verifier's Verify.
func (p *passes) verify(text string) (pass.Pass, error) {
	p.mu.Lock()
	got, known := p.young[text]
	if !known {
		got, known = p.old[text]
	}
	p.mu.Unlock()
	if known {
		return got, nil
	}
	got, err := p.verifier.Verify(text)
	if err == nil {
		p.keep(text, got)
	}
	return got, err
}

// keep remembers what a genuine pass says.
func (p *passes) keep(text string, says pass.Pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.young[text]; known {
		return
	}
	if len(p.young) >= passesKept {
		p.young, p.old = map[string]pass.Pass{}, p.young
	}
	p.young[strings.Clone(text)] = says // the text is a piece of a request's whole head
}
