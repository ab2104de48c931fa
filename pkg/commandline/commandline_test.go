package commandline_test

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/commandline"
)

func TestArguments(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]struct {
		more  bool
		words []string
		n     int
		err   error
		told  string
	}{
		"a":              {words: []string{"a"}},
		"-n 3 a":         {words: []string{"a"}, n: 3},
		"a --n=3":        {words: []string{"a"}, n: 3},
		"a -n 3 b c":     {more: true, words: []string{"a", "b", "c"}, n: 3},
		"a b -n 3":       {n: 3, err: commandline.ErrUsage, told: `things show: unexpected argument "b"`},
		"":               {err: commandline.ErrUsage, told: "things show: expected a thing"},
		"-n 3":           {more: true, n: 3, err: commandline.ErrUsage, told: "things show: expected a thing"},
		"a -n three":     {err: commandline.ErrUsage, told: `invalid value "three"`},
		"a -m 3":         {err: commandline.ErrUsage, told: "-m"},
		"a -h":           {err: flag.ErrHelp, told: "Things.\n  -n"},
		"a b -n 2 -help": {n: 2, err: flag.ErrHelp, told: "Things.\n  -n"},
	} {
		var said bytes.Buffer
		flags := flag.NewFlagSet("things show", flag.ContinueOnError)
		n := flags.Int("n", 0, "how many")
		words, err := commandline.Arguments{Flags: flags, Help: "Things.\n", Words: []string{"a thing"}, More: want.more}.Read(strings.Fields(typed), &said)
		if !errors.Is(err, want.err) || *n != want.n || !strings.Contains(said.String(), want.told) || want.told == "" && said.Len() > 0 {
			t.Errorf("%q: %v, n %d: %s", typed, err, *n, said.String())
		}
		if diff := cmp.Diff(want.words, words); diff != "" {
			t.Errorf("%q: %s", typed, diff)
		}
	}
}

func TestVerb(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]struct {
		verb string
		rest []string
		err  error
		told string
	}{
		"show a -n 3": {verb: "show", rest: []string{"a", "-n", "3"}},
		"list":        {verb: "list", rest: []string{}},
		"":            {err: commandline.ErrUsage, told: "Things.\nthings: expected a subcommand\n"},
		"help":        {err: flag.ErrHelp, told: "Things."}, "-h": {err: flag.ErrHelp, told: "Things."}, "--help": {err: flag.ErrHelp, told: "Things."},
		"shows a": {err: commandline.ErrUsage, told: `things: unknown subcommand "shows"; -help lists`},
	} {
		var said bytes.Buffer
		verb, rest, err := commandline.Verb("things", "Things.", []string{"list", "show"}, strings.Fields(typed), &said)
		if verb != want.verb || !errors.Is(err, want.err) || !strings.Contains(said.String(), want.told) || want.told == "" && said.Len() > 0 {
			t.Errorf("%q: %q, %v: %s", typed, verb, err, said.String())
		}
		if diff := cmp.Diff(want.rest, rest); diff != "" {
			t.Errorf("%q: %s", typed, diff)
		}
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	table := commandline.NewTable(&out)
	table.Line("ID", "STATE")
	table.Line(12345, commandline.Dash(""))
	table.Line(commandline.Dash("6"), "open")
	if err := table.End(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("ID     STATE\n12345  -\n6      open\n", out.String()); diff != "" {
		t.Fatal(diff)
	}
	out.Reset()
	if err := commandline.JSON(&out, map[string]string{"a": "<b>"}); err != nil || out.String() != "{\"a\":\"<b>\"}\n" {
		t.Fatal(err, out.String())
	}
	table = commandline.NewTable(broken{})
	table.Line("a")
	if err := table.End(); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }
