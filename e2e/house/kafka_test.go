package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryKafkaTestRunsOnKafkaItself wants each package whose tests take the suite's broker in the list of `make test-kafka`: else it
// would only ever meet the broker inside the process.
func TestEveryKafkaTestRunsOnKafkaItself(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, found := strings.Cut(string(makefile), "\ntest-kafka:")
	recipe, _, ends := strings.Cut(recipe, "\n\n")
	if !found || !ends {
		t.Fatal("the Makefile has no target test-kafka")
	}
	listed := regexp.MustCompile(`hanjul/(\S+)`).FindAllStringSubmatch(recipe, -1)
	takes := regexp.MustCompile(`\b(localtest\.Kafka\(|localtest\.KafkaJars\(|local\.StartStack\()`)
	users := 0
	for _, name := range files(t, "*.go") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		program := strings.Contains(dir, "/cmd/") && !strings.HasSuffix(name, "_test.go")
		if !takes.Match(text) || program || dir == "e2e/bench" {
			continue // programs, and what is only measured
		}
		users++
		covered := false
		for _, m := range listed {
			base, below := strings.CutSuffix(m[1], "/...")
			covered = covered || dir == base || below && strings.HasPrefix(dir, base+"/")
		}
		if !covered {
			t.Errorf("%s takes the suite's Kafka, and make test-kafka does not run its package", name)
		}
	}
	if users == 0 {
		t.Error("no test takes the suite's Kafka: this test looks for the wrong words")
	}
}
