package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hanjul/deploy/local"
)

// TestImagesAgree wants every place that names the stores' images to name the same ones: what compose runs is what the tests ran on.
func TestImagesAgree(t *testing.T) {
	t.Parallel()
	stores := []string{local.RedisImage, local.PostgresImage, local.KafkaImage}
	named := regexp.MustCompile(`(?m)^\s*(?:image:\s*)?((?:redis|postgres|apache/kafka):\S+)\s*$`)
	for _, name := range []string{"docker-compose.yml", "deploy/docker/images"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(stores, m[1]) {
				t.Errorf("%s names %s, deploy/local %s", name, m[1], strings.Join(stores, ", "))
			}
			found = append(found, m[1])
		}
		for _, image := range stores {
			if !slices.Contains(found, image) {
				t.Errorf("%s does not name %s", name, image)
			}
		}
	}
}
