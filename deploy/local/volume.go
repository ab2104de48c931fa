package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"
)

// volumeFile is the file in a server's folder that names the volume with its state.
const volumeFile = "volume"

// volume gives the name of the volume that belongs to the folder, "" where none
// is asked for. A crash between the file and the volume leaves a name whose
// volume is made next time.
func (c *container) volume(ctx context.Context) (string, error) {
	if c.options.folder == "" {
		return "", nil
	}
	folder, err := filepath.Abs(c.options.folder)
	if err != nil {
		return "", fmt.Errorf("folder of %s: %w", c.options.name, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("make the folder of %s: %w", c.options.name, err)
	}
	others, err := os.ReadDir(folder)
	if err != nil {
		return "", fmt.Errorf("folder of %s: %w", c.options.name, err)
	}
	for _, entry := range others {
		if entry.Name() != volumeFile {
			return "", fmt.Errorf("%s has the state of a %s that ran as a program: HANJUL_SERVERS=%s goes on with it, removing the folder begins anew",
				folder, c.options.name, serversPrograms)
		}
	}
	path := filepath.Join(folder, volumeFile)
	text, err := os.ReadFile(path)
	name := strings.TrimSpace(string(text))
	if errors.Is(err, os.ErrNotExist) {
		name = fmt.Sprintf("%s%s-%x", tempMark, c.options.name, randomBytes(8))
		err = os.WriteFile(path, []byte(name+"\n"), 0o644)
	}
	if err != nil {
		return "", fmt.Errorf("name the volume of %s: %w", c.options.name, err)
	}
	_, host := ours()
	_, err = c.engine.client.VolumeCreate(ctx, client.VolumeCreateOptions{
		Name: name, Labels: map[string]string{hostLabel: host, folderLabel: folder},
	})
	if err != nil {
		return "", fmt.Errorf("make the volume %s: %w", name, err)
	}
	return name, nil
}

// refuseVolume fails where a folder's state is in a volume: a program would
// begin anew beside it, and the books would not fit the other servers'.
func refuseVolume(folder string) error {
	if _, err := os.Stat(filepath.Join(folder, volumeFile)); err != nil {
		return nil //nolint:nilerr // no such file is what is hoped for
	}
	return fmt.Errorf("the state of %s is in a container's volume: HANJUL_SERVERS=%s goes on with it, removing the folder begins anew", folder, serversDocker)
}
