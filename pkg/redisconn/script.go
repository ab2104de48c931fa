package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/redis/go-redis/v9"
)

// Script is one script of the tree. Safe for concurrent use.
type Script struct {
	name, source string
	script       *redis.Script
}

// LoadScript reads an embedded script. A missing file is a fault of the build that every test of its owner meets, hence a panic.
func LoadScript(files fs.FS, name string) *Script {
	source, err := fs.ReadFile(files, name)
	if err != nil {
		panic(fmt.Sprintf("script %s is not in the binary: %v", name, err))
	}
	return &Script{name, string(source), redis.NewScript(string(source))}
}

// Run runs the script by its hash, and by its text where the node does not know it: after a restart, a failover or a flush
// of the script cache. With a Shared it leaves together with other calls. Errors carry no business meaning; the script's own outcomes
// are in the answer. The arguments may still be read after ctx ended.
func (s *Script) Run(ctx context.Context, rdb redis.UniversalClient, keys []string, args ...any) (Answer, error) {
	var values []any
	var err error
	if shared, ok := rdb.(*Shared); ok {
		values, err = shared.run(ctx, s, keys, args)
	} else {
		values, err = s.script.Run(ctx, rdb, keys, args...).Slice()
	}
	if err != nil {
		return Answer{}, fmt.Errorf("run %s: %w", s.name, err)
	}
	return Answer{s.name, values, new(error)}, nil
}

// Call is one call of a script within RunMany.
type Call struct {
	Keys []string
	Args []any
}

// RunMany runs the script once per call, in one pipeline. In a pipeline a node that does not know the script answers an
// error after the fact, so those calls, and only those, are sent again with the text. Answers are in the order of calls. On an
// error some calls may have run; the scripts are safe to repeat.
func (s *Script) RunMany(ctx context.Context, rdb redis.UniversalClient, calls []Call) ([]Answer, error) {
	answers := make([]Answer, len(calls))
	again, err := s.pipeline(ctx, rdb, calls, answers, nil)
	if err == nil && len(again) > 0 {
		again, err = s.pipeline(ctx, rdb, calls, answers, again)
		if err == nil && len(again) > 0 {
			err = errors.New("the script is unknown after it was sent")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("run %s in a pipeline of %d: %w", s.name, len(calls), err)
	}
	return answers, nil
}

// pipeline sends all calls by hash (only == nil) or some by text, and returns those that met an empty script cache.
func (s *Script) pipeline(ctx context.Context, rdb redis.UniversalClient, calls []Call, answers []Answer, only []int) ([]int, error) {
	byText := only != nil
	if !byText {
		for i := range calls {
			only = append(only, i)
		}
	}
	pipe := rdb.Pipeline()
	results := make([]*redis.Cmd, len(only))
	for n, i := range only {
		if byText {
			results[n] = s.script.Eval(ctx, pipe, calls[i].Keys, calls[i].Args...)
		} else {
			results[n] = s.script.EvalSha(ctx, pipe, calls[i].Keys, calls[i].Args...)
		}
	}
	_, _ = pipe.Exec(ctx) // each result below carries its own error
	var unknown []int
	for n, result := range results {
		values, err := result.Slice()
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			unknown = append(unknown, only[n])
		case err != nil:
			return nil, err
		default:
			answers[only[n]] = Answer{s.name, values, new(error)}
		}
	}
	return unknown, nil
}
