// Package lua holds the Redis scripts, one file each, named owner_verb. It imports nothing of ours and
// runs nothing: the owner of a key family (waitingroom, stock, orderstatus) reads its script from FS and is the only
// caller. Every file starts with a contract header that a test in this package checks.
package lua

import "embed"

// FS holds every script under its file name.
//
//go:embed *.lua
var FS embed.FS
