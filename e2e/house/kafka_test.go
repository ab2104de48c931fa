package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryKafkaTestRunsOnKafkaItself wants each package whose tests take the suite's broker in the list of `make test-kafka`: else it
// would only ever meet the broker inside the process.
func TestEveryKafkaTestRunsOnKafkaItself(t *testing.T) {
	t.Parallel()
	takersRun(t, "test-kafka", regexp.MustCompile(`\b(localtest\.Kafka\(|localtest\.KafkaNode\(|local\.StartStack\()`))
}

// TestEveryRedisTestRunsOnACluster wants the same of `make test-redis-cluster` and the suite's Redis: else it would only ever meet one node that owns
// every slot. How that node is started is no matter of a cluster.
func TestEveryRedisTestRunsOnACluster(t *testing.T) {
	t.Parallel()
	takersRun(t, "test-redis-cluster", regexp.MustCompile(`\blocaltest\.Redis\(`), "deploy/local")
}

// takersRun wants a target of the Makefile to run every package whose code takes what is looked for, but those named.
func takersRun(t *testing.T, target string, takes *regexp.Regexp, but ...string) {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, found := strings.Cut(string(makefile), "\n"+target+":")
	recipe, _, ends := strings.Cut(recipe, "\n\n")
	if !found || !ends {
		t.Fatalf("the Makefile has no target %s", target)
	}
	listed := regexp.MustCompile(`hanjul/(\S+)`).FindAllStringSubmatch(recipe, -1)
	users := 0
	for _, name := range files(t, "*.go") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		program := strings.Contains(dir, "/cmd/") && !strings.HasSuffix(name, "_test.go")
		if !takes.Match(text) || program || dir == "e2e/bench" || slices.Contains(but, dir) {
			continue // programs, and what is only measured
		}
		users++
		covered := false
		for _, m := range listed {
			base, below := strings.CutSuffix(m[1], "/...")
			covered = covered || dir == base || below && strings.HasPrefix(dir, base+"/")
		}
		if !covered {
			t.Errorf("%s takes the suite's servers, and make %s does not run its package", name, target)
		}
	}
	if users == 0 {
		t.Errorf("make %s: no test takes the suite's servers: this test looks for the wrong words", target)
	}
}
