package operator_test

import (
	"testing"

	"hanjul/deploy/local/localtest"
)

func TestMain(m *testing.M) { localtest.Main(m) }
