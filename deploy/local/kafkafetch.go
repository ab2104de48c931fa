package local

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// kafkaFiles are the pom that names the broker's version and its logging.
//
//go:embed kafka/pom.xml kafka/log4j2.properties
var kafkaFiles embed.FS

var (
	pomVersion  = regexp.MustCompile(`<kafka\.version>([^<]+)</kafka\.version>`)
	javaVersion = regexp.MustCompile(`version "([0-9]+)`)
)

// oldestJava is what a 4.x broker runs on.
const oldestJava = 17

// FetchKafka sees to it that dir holds Apache Kafka with its runtime and
// returns the folder of its jars. Maven fetches them once; after that the call
// needs neither Maven nor a network. It fails with ErrMissing or ErrTooOld in
// one line when Java 17 or Maven is not here. Safe to repeat.
func FetchKafka(ctx context.Context, dir string) (jars string, err error) {
	if _, err := findJava(ctx); err != nil {
		return "", err
	}
	pom, err := kafkaFiles.ReadFile("kafka/pom.xml")
	if err != nil {
		return "", fmt.Errorf("fetch kafka: %w", err)
	}
	match := pomVersion.FindSubmatch(pom)
	if match == nil {
		return "", errors.New("fetch kafka: the pom names no version")
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("fetch kafka: %w", err)
	}
	jars = filepath.Join(dir, "kafka-"+string(match[1]))
	if _, err := os.Stat(jars); err == nil {
		return jars, nil
	}
	maven, err := find("mvn")
	if err != nil {
		return "", fmt.Errorf("fetch kafka: Maven is needed once: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("fetch kafka: %w", err)
	}
	// Into a folder beside it first: the final name means complete.
	work, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return "", fmt.Errorf("fetch kafka: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // a leftover is ignored by git and harms nobody
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return "", fmt.Errorf("fetch kafka: %w", err)
	}
	cmd := exec.Command(maven, "-q", "-B", "-f", filepath.Join(work, "pom.xml"),
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(work, "jars"))
	cmd.Dir = work
	if err := runChild(ctx, "mvn", cmd); err != nil {
		return "", fmt.Errorf("fetch kafka: %w", err)
	}
	if err := os.Rename(filepath.Join(work, "jars"), jars); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("fetch kafka: %w", err)
	}
	return jars, nil
}

// findJava gives the java program, 17 or newer.
func findJava(ctx context.Context) (string, error) {
	java, err := find("java")
	if err != nil {
		return "", fmt.Errorf("kafka needs Java %d or newer: %w", oldestJava, err)
	}
	printed, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ask java for its version: %w", err)
	}
	match := javaVersion.FindSubmatch(printed)
	if match == nil {
		return "", fmt.Errorf("ask java for its version: it says %q", printed)
	}
	if major, err := strconv.Atoi(string(match[1])); err != nil || major < oldestJava {
		return "", fmt.Errorf("kafka needs Java %d or newer and this is %s: %w", oldestJava, match[1], ErrTooOld)
	}
	return java, nil
}

// runChild runs a program to its end; its last lines are in the error.
func runChild(ctx context.Context, name string, cmd *exec.Cmd) error {
	proc, err := startChild(name, cmd, syscall.SIGKILL, nil)
	if err != nil {
		return err
	}
	select {
	case <-proc.ended:
	case <-ctx.Done():
		proc.kill()
		return fmt.Errorf("%s: %w", name, ctx.Err())
	}
	if proc.err != nil {
		return proc.failed()
	}
	return nil
}
