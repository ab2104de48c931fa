package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func readTree(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// firsts gives the first group of every match, sorted, each once.
func firsts(pattern, text string) []string {
	var all []string
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestImagesAreNamedAlike compares what docker-compose.yml and the Dockerfile take from a registry with what has a stand-in, and the
// versions with those that the rest of the tree says.
func TestImagesAreNamedAlike(t *testing.T) {
	t.Parallel()
	compose, dockerfile := readTree(t, "docker-compose.yml"), readTree(t, "deploy", "docker", "Dockerfile")
	named := append(firsts(`(?m)^ +image: ([^$\s]+)$`, compose), firsts(`(?m)^FROM \S+ (\S+) AS`, dockerfile)...)
	named = slices.DeleteFunc(named, func(image string) bool { // behind the profile observe
		return strings.HasPrefix(image, "prom/") || strings.HasPrefix(image, "grafana/")
	})
	slices.Sort(named)
	made := firsts(`(?m)^([a-z][^\s#]*:\S+)$`, readTree(t, "deploy", "docker", "images"))
	if !slices.Equal(named, made) {
		t.Errorf("docker-compose.yml and deploy/docker/Dockerfile name %q, deploy/docker/images %q", named, made)
	}
	kafka := firsts(`<kafka\.version>([^<]+)<`, readTree(t, "deploy", "local", "kafka", "pom.xml"))
	if image := "apache/kafka:" + kafka[0]; !slices.Contains(named, image) {
		t.Errorf("expected %s, as in deploy/local/kafka/pom.xml, among %q", image, named)
	}
	language := firsts(`(?m)^go (\d+\.\d+)`, readTree(t, "go.work"))
	if image := "golang:" + language[0] + "-bookworm"; !slices.Contains(named, image) {
		t.Errorf("expected %s, as in go.work, among %q", image, named)
	}
	for _, program := range firsts(`SERVICE: ([a-z-]+)`, compose) {
		if !strings.Contains(dockerfile, "/"+program+" ") && !strings.Contains(dockerfile, "/"+program+"\n") {
			t.Errorf("docker-compose.yml wants %s, which deploy/docker/Dockerfile does not build", program)
		}
	}
}

// TestComposeCanBeSet wants every variable of docker-compose.yml in .env.example with the same default.
func TestComposeCanBeSet(t *testing.T) {
	t.Parallel()
	compose := readTree(t, "docker-compose.yml")
	used := firsts(`\$\{(HANJUL_[A-Z_]+:-[^}]*)\}`, compose)
	shown := firsts(`(?m)^(HANJUL_[A-Z_]+=.*)$`, readTree(t, ".env.example"))
	for i, line := range shown {
		shown[i] = strings.Replace(line, "=", ":-", 1)
	}
	if !slices.Equal(used, shown) {
		t.Errorf("docker-compose.yml has the defaults %q, .env.example %q", used, shown)
	}
}

// TestDashboardShowsWhatIs wants every metric of the dashboard to be one that docs/operations.md lists.
func TestDashboardShowsWhatIs(t *testing.T) {
	t.Parallel()
	listed := readTree(t, "docs", "operations.md")
	names := firsts(`(hanjul_[a-z_]+)`, readTree(t, "deploy", "observability", "grafana", "dashboards", "hanjul.json"))
	if len(names) < 10 {
		t.Fatalf("the dashboard has the metrics %q only", names)
	}
	for _, name := range names {
		if !strings.Contains(listed, "`"+strings.TrimSuffix(name, "_bucket")+"`") {
			t.Errorf("docs/operations.md lists no %s", name)
		}
	}
}
