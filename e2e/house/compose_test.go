package house

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// TestComposeReadsInV2 loads docker-compose.yml as docker compose v2 does, with nothing set and every profile; make test-docker has
// docker-compose 1.29 run it.
func TestComposeReadsInV2(t *testing.T) {
	t.Parallel()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, cli.WithName("hanjul"), cli.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"queue-api", "admission-scheduler", "order-consumer"} {
		service := project.Services[name]
		if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) || service.Build == nil {
			t.Errorf("%s: expected a root that is read only, no capability and a build, found %v, %q, %v", name, service.ReadOnly, service.CapDrop, service.Build)
		}
		// What docs/deploy.md wants to be granted.
		if grace := service.StopGracePeriod; grace == nil || time.Duration(*grace) != 30*time.Second {
			t.Errorf("%s: expected a stop_grace_period of 30s, found %v", name, grace)
		}
		if got := service.DependsOn["topics"].Condition; got != types.ServiceConditionCompletedSuccessfully {
			t.Errorf("%s begins when topics is %q, expected %s", name, got, types.ServiceConditionCompletedSuccessfully)
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is on %q, expected 127.0.0.1", name, port.Published, port.HostIP)
			}
		}
	}
	consumer := project.Services["order-consumer"]
	if consumer.ContainerName != "" || len(consumer.Ports) > 0 {
		t.Errorf("order-consumer has the name %q and %d ports of the machine, so it cannot be scaled", consumer.ContainerName, len(consumer.Ports))
	}
}
