package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAtLeast(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"7.0.15": true, "7.0": true, "7": true, "8.0": true, "10.1": true, "7.2rc1": true, "6.9.9": false, "": false, "x": false,
	} {
		if got := atLeast(version, 7, 0); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
	if atLeast("14.9", 15, 0) || !atLeast("15.1", 15, 1) || atLeast("15.0", 15, 1) {
		t.Error("minor versions are not compared")
	}
}

func TestLockOutlivesNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A file that a crashed launcher left behind holds nobody up.
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	first, err := takeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeLock(dir); !errors.Is(err, ErrInUse) {
		t.Fatalf("got %v", err)
	}
	first.release()
	again, err := takeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	again.release()
}

func TestSweepTakesOnlyWhatNobodyOwns(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	abandoned, err := newTempDir(parent, "kind")
	if err != nil {
		t.Fatal(err)
	}
	if err := abandoned.owner.Close(); err != nil { // as the kernel does for a killed owner
		t.Fatal(err)
	}
	owned, err := newTempDir(parent, "kind")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abandoned.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the abandoned folder is still there: %v", err)
	}
	sweep(parent)
	if err := owned.gone(); err != nil {
		t.Errorf("an owned folder was swept: %v", err)
	}
	owned.remove()
	if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRefuseCluster(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{
		"Absent":    "",
		"Commented": "# a comment\n#create_main_cluster = true\nssl = on\n",
		"Set":       "create_main_cluster=true\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "folder", "createcluster.conf")
			if before != "" {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(before), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := refuseCluster(path); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), "create_main_cluster"); n != 1 || !strings.Contains(string(text), "\ncreate_main_cluster = false\n") && !strings.HasPrefix(string(text), "create_main_cluster = false\n") {
				t.Fatalf("got %q", text)
			}
			if strings.Contains(before, "ssl") && !strings.Contains(string(text), "ssl = on") {
				t.Fatalf("lost a setting: %q", text)
			}
		})
	}
}

func TestHoldServicesPutsTheMachinesPolicyBack(t *testing.T) {
	t.Parallel()
	const own = "#!/bin/sh\nexit 104\n"
	path := filepath.Join(t.TempDir(), "policy-rc.d")
	if err := os.WriteFile(path, []byte(own), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds what a crash in the first left
		if _, err := holdServices(path); err != nil {
			t.Fatal(err)
		}
	}
	release, err := holdServices(path)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "exit 101") {
		t.Fatalf("while held: %q, %v", text, err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != own {
		t.Fatalf("afterwards: %q, %v", text, err)
	}
}

// A server is known by its name: a Valkey claims to be a Redis of the version it came from.
func TestFindRedis(t *testing.T) {
	for printed, want := range map[string]string{
		"Redis server v=7.0.15 sha=00000000:0": "redis 7.0.15",
		"Redis server v=6.2.14 sha=00000000:0": "",
		"Valkey server v=8.1.1 sha=00000000:0": "valkey 8.1.1",
		"Valkey server v=7.1.0 sha=00000000:0": "",
	} {
		path := filepath.Join(t.TempDir(), "server")
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+printed+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("HANJUL_REDIS_SERVER", path)
		p, err := findRedis(t.Context())
		if want == "" && (!errors.Is(err, ErrTooOld) || !strings.Contains(err.Error(), "or newer is needed")) {
			t.Errorf("%s: %v", printed, err)
		}
		if want != "" && (err != nil || p.product+" "+p.version != want || p.path != path) {
			t.Errorf("%s: %+v, %v", printed, p, err)
		}
	}
}
