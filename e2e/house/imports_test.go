package house

import (
	"slices"
	"strings"
	"testing"
)

// rule says what some packages may not link, or what alone they may import. A path names a package and all below it.
type rule struct {
	name string
	// of are the packages that the rule is about.
	of []string
	// never may not be linked by them, on whatever way.
	never []string
	// onlyOurs are the packages of ours that they may import; nil for no such limit. A package may always import below itself.
	onlyOurs []string
	// onlyStandard says that beyond onlyOurs they import the standard library alone.
	onlyStandard bool
	// noHelpers forbids our packages that are there for tests.
	noHelpers bool
}

var (
	contracts   = []string{"hanjul/pkg/product", "hanjul/pkg/order", "hanjul/pkg/ticket", "hanjul/pkg/pass", "hanjul/pkg/keyring"}
	plumbing    = []string{"hanjul/pkg/kafka", "hanjul/pkg/lifecycle", "hanjul/pkg/config", "hanjul/pkg/telemetry", "hanjul/pkg/httpserver", "hanjul/pkg/postgres", "hanjul/pkg/storewatch", "hanjul/pkg/healthcheck", "hanjul/pkg/commandline"}
	redisOwners = []string{"hanjul/pkg/waitingroom", "hanjul/pkg/stock", "hanjul/pkg/orderstatus"}
	sqlOwners   = []string{"hanjul/pkg/ledger", "hanjul/pkg/outbox"}
	services    = []string{"hanjul/services/queue-api", "hanjul/services/admission-scheduler", "hanjul/services/order-consumer"}
	forTests    = []string{
		"testing", "hanjul/deploy/local", "hanjul/e2e", "github.com/twmb/franz-go", "github.com/google/go-cmp",
		"github.com/santhosh-tekuri/jsonschema", "go.uber.org/goleak", "pgregory.net/rapid", "net/http/httptest",
		"github.com/testcontainers", "github.com/moby", "github.com/docker",
	}
)

func rules() []rule {
	list := []rule{
		{name: "contracts import the standard library and each other", of: contracts, onlyOurs: contracts, onlyStandard: true},
		{name: "plumbing knows no business word", of: plumbing, onlyOurs: plumbing},
		{name: "the owners of SQL import contracts, the schema and the connection only", of: sqlOwners, onlyOurs: slices.Concat(contracts, []string{"hanjul/migrations", "hanjul/pkg/postgres"})},
		{name: "pkg stands below services, tests and deployment", of: []string{"hanjul/pkg"}, never: slices.Concat(services, []string{"hanjul/e2e", "hanjul/deploy"})},
		{name: "scripts and migrations import nothing of ours", of: []string{"hanjul/lua", "hanjul/migrations"}, onlyOurs: []string{}},
		{name: "the local stack imports nothing of ours", of: []string{"hanjul/deploy/local"}, onlyOurs: []string{}},
		{name: "the example of a reader stands alone, to be copied", of: []string{"hanjul/e2e/cmd/bookkeeper"}, onlyOurs: []string{}},
		{name: "queue-api links no Postgres", of: services[:1], never: slices.Concat(sqlOwners, []string{"github.com/jackc/pgx", "hanjul/migrations"})},
		{name: "nothing shipped links a test helper", of: services, never: forTests, noHelpers: true},
	}
	for i, service := range services {
		others := slices.Delete(slices.Clone(services), i, i+1)
		list = append(list, rule{name: "services do not import each other", of: []string{service}, never: others})
	}
	for i, owner := range redisOwners {
		others := slices.Delete(slices.Clone(redisOwners), i, i+1)
		list = append(list, rule{name: "the owners of Redis never import each other, nor SQL", of: []string{owner}, never: append(others, sqlOwners...)})
	}
	return list
}

func TestImports(t *testing.T) {
	t.Parallel()
	all := allPackages(t)
	for _, rule := range rules() {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			for _, of := range rule.of {
				subjects := below(all, of)
				if len(subjects) == 0 {
					t.Errorf("the rule names %s, which does not exist: mend the rule or the tree", of)
				}
				for _, subject := range subjects {
					check(t, rule, of, subject)
				}
			}
		})
	}
}

func check(t *testing.T, rule rule, of string, subject pkg) {
	t.Helper()
	for _, dep := range subject.Deps {
		if within(dep, rule.never) || rule.noHelpers && isHelper(dep) {
			t.Errorf("%s links %s", subject.ImportPath, dep)
		}
	}
	for _, imported := range subject.Imports {
		ours := within(imported, []string{"hanjul"})
		switch {
		case ours && rule.onlyOurs != nil && !within(imported, append([]string{of}, rule.onlyOurs...)):
			t.Errorf("%s imports %s", subject.ImportPath, imported)
		case !ours && rule.onlyStandard && strings.Contains(strings.Split(imported, "/")[0], "."):
			t.Errorf("%s imports %s", subject.ImportPath, imported)
		}
	}
}

// isHelper says whether a package is ours and there for tests, as its name says by its end: outboxtest, localtest.
func isHelper(path string) bool {
	return within(path, []string{"hanjul"}) && strings.HasSuffix(path, "test")
}

// below are the packages at or below a path, without those for tests.
func below(all []pkg, path string) []pkg {
	var list []pkg
	for _, p := range all {
		if within(p.ImportPath, []string{path}) && (p.ImportPath == path || !isHelper(p.ImportPath)) {
			list = append(list, p)
		}
	}
	return list
}

func within(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return path == root || strings.HasPrefix(path, root+"/")
	})
}
