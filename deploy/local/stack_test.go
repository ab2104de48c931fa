package local_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

func startStack(t *testing.T, options local.StackOptions) *local.Stack {
	t.Helper()
	options.Log, options.Private = t.Output(), true
	stack, err := local.StartStack(t.Context(), options)
	localtest.Need(t, err)
	t.Cleanup(func() {
		if err := stack.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return stack
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestStackStartsSinksAndStopsSourcesFirst(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	stack := startStack(t, local.StackOptions{
		BinDir: binaries(t), Env: map[string]string{"HANJUL_STUB_JOURNAL": journal},
	})
	if n := len(stack.APIs()) + len(stack.OperatorURLs()) + len(stack.Processes(local.Consumer)); n != 6 {
		t.Fatalf("%d processes", n)
	}
	began := lines(t, journal)
	if want := []string{"order-consumer migrate", "order-consumer topics --create"}; !slices.Equal(began[:2], want) {
		t.Fatalf("began with %q", began[:2])
	}
	if err := stack.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var stops []string
	for _, line := range lines(t, journal) {
		if name, found := strings.CutSuffix(line, " stop"); found {
			stops = append(stops, name)
		}
	}
	want := []string{"queue-api", "queue-api", "admission-scheduler", "admission-scheduler", "order-consumer", "order-consumer"}
	if !slices.Equal(stops, want) {
		t.Fatalf("stopped %q", stops)
	}
	if _, err := os.Stat(stack.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the temporary folder is still there: %v", err)
	}
}

func TestStackRunning(t *testing.T) {
	t.Parallel()
	stack := startStack(t, local.StackOptions{BinDir: binaries(t), PerService: 1})
	t.Run("TellsEachNoMoreThanItNeeds", func(t *testing.T) { tellsNoMoreThanNeeded(t, stack) })
	t.Run("SaysWhichProcessEndedUnasked", func(t *testing.T) { saysWhichEnded(t, stack) })
	t.Run("RunsSubcommands", func(t *testing.T) { runsSubcommands(t, stack) })
}

func tellsNoMoreThanNeeded(t *testing.T, stack *local.Stack) {
	t.Helper()
	seen := func(name string) string {
		answer, err := http.Get("http://" + stack.AdminAddrs(name)[0] + "/env")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, hidden := range map[string][]string{
		local.QueueAPI:  {"HANJUL_POSTGRES_URL", "HANJUL_OPERATOR_TOKENS"},
		local.Scheduler: {"HANJUL_KEY_PASS"},
		local.Consumer:  {"HANJUL_KEY_PASS", "HANJUL_OPERATOR_TOKENS"},
	} {
		env := seen(name)
		if !strings.Contains(env, "HANJUL_REDIS_ADDRS="+stack.Redis().Addr()+"\n") {
			t.Errorf("%s does not know Redis: %s", name, env)
		}
		for _, setting := range hidden {
			if strings.Contains(env, setting) {
				t.Errorf("%s is told %s", name, setting)
			}
		}
	}
}

func saysWhichEnded(t *testing.T, stack *local.Stack) {
	t.Helper()
	consumer := stack.Processes(local.Consumer)[0]
	consumer.Kill()
	if err := consumer.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := consumer.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-stack.Unexpected():
		t.Fatalf("an end that was asked for is reported: %v", err)
	default:
	}
	if err := syscall.Kill(consumer.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-stack.Unexpected(); !strings.Contains(err.Error(), "order-consumer-1 ended: signal: killed") {
		t.Fatalf("got %v", err)
	}
}

func runsSubcommands(t *testing.T, stack *local.Stack) {
	t.Helper()
	var said strings.Builder
	err := stack.Run(t.Context(), &said, &said, local.Consumer, "fail")
	exit, found := errors.AsType[*exec.ExitError](err)
	if !found || exit.ExitCode() != 7 || said.String() != "why it failed\n" {
		t.Fatalf("got %v, %q", err, said.String())
	}
}

func TestStackSurvivesItsLaunchersDeath(t *testing.T) {
	t.Parallel()
	localtest.Need(t, local.Check(t.Context()))
	bin, data := binaries(t), localtest.Dir(t)
	cmd := exec.Command(filepath.Join(bin, launcher), data)
	cmd.Stderr = t.Output()
	printed, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for scanner := bufio.NewScanner(printed); scanner.Scan() && scanner.Text() != "up"; {
		pid, err := strconv.Atoi(scanner.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 3 {
		t.Fatalf("the stack did not start: %v", pids)
	}
	if _, err := local.StartStack(t.Context(), local.StackOptions{DataDir: data, BinDir: bin}); !errors.Is(err, local.ErrInUse) {
		t.Fatalf("two stacks on one folder: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as asked
	for _, pid := range pids {
		eventually(t, "a child ends with its launcher", func() bool { return gone(pid) })
	}

	// What the crash left behind must not stop the next start, and one that
	// is stopped in order keeps keys and state.
	options := local.StackOptions{DataDir: data, Persist: true, Private: true, BinDir: bin, PerService: 1}
	stack := startStack(t, options)
	token, err := stack.OperatorToken()
	if err != nil {
		t.Fatal(err)
	}
	if err := redisClient(t, stack.Redis().Addr()).Set(t.Context(), "hanjul:kept", "yes", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, stack.Setting("HANJUL_POSTGRES_URL")).Exec(t.Context(), "CREATE TABLE kept (n int)"); err != nil {
		t.Fatal(err)
	}
	if err := stack.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join("data", "PG_VERSION")
	if stack.Postgres().Dir() == "" {
		kept = "volume" // the name of a container's
	}
	if _, err := os.Stat(filepath.Join(data, "postgres", kept)); err != nil {
		t.Fatalf("the database is not in the data folder: %v", err)
	}
	stack = startStack(t, options)
	if again, err := stack.OperatorToken(); err != nil || again != token {
		t.Fatalf("another operator token, %v", err)
	}
	if got, err := redisClient(t, stack.Redis().Addr()).Get(t.Context(), "hanjul:kept").Result(); err != nil || got != "yes" {
		t.Fatalf("redis: %q, %v", got, err)
	}
	if _, err := connect(t, stack.Setting("HANJUL_POSTGRES_URL")).Exec(t.Context(), "TABLE kept"); err != nil {
		t.Fatal(err)
	}
}
