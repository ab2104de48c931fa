package telemetry

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Build says what a binary was made from.
type Build struct {
	// Version is the release, "dev" when the build did not say.
	Version string
	// Revision is the commit, with "-dirty" behind it when files had changed; empty when unknown.
	Revision string
	// Go is the toolchain.
	Go string
}

// NewBuild completes what the linker set (-ldflags "-X main.version=... -X main.revision=...") with what the toolchain
// noted. Either argument may be empty.
func NewBuild(version, revision string) Build {
	build := Build{Version: version, Revision: revision, Go: runtime.Version()}
	if build.Version == "" {
		build.Version = "dev"
	}
	if info, ok := debug.ReadBuildInfo(); ok && build.Revision == "" {
		build.Revision = vcsRevision(info.Settings)
	}
	return build
}

// String is the line that -version prints behind the service's name.
func (b Build) String() string {
	if b.Revision == "" {
		return fmt.Sprintf("%s (%s)", b.Version, b.Go)
	}
	return fmt.Sprintf("%s (%s, %s)", b.Version, b.Revision, b.Go)
}

func vcsRevision(settings []debug.BuildSetting) string {
	var revision, dirty string
	for _, setting := range settings {
		switch {
		case setting.Key == "vcs.revision":
			revision = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			dirty = "-dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}
