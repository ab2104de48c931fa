package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMessagesShowRealSamples holds docs/messages.md against the samples that pkg/order decodes: what the page shows is one of them.
func TestMessagesShowRealSamples(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "messages.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "pkg", "order", "testdata", "*_v*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	samples := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		samples[strings.TrimSpace(string(text))] = true
	}
	shown := 0
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)\n```").FindAllStringSubmatch(string(page), -1) {
		for _, line := range strings.Split(block[1], "\n") {
			shown++
			if !samples[line] {
				t.Errorf("docs/messages.md shows what is no sample: %s", line)
			}
		}
	}
	if shown < 7 {
		t.Errorf("docs/messages.md shows %d samples, expected an event of each outcome, commands and a dead letter", shown)
	}
}
