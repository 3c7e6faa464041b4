package spec_test

import (
	"testing"

	"berth.dev/berth/fleet/spec"
)

func TestSummaryIsOneLineForPeople(t *testing.T) {
	for arg, want := range map[string]string{
		"lab":     "3 nodes, 14 GPUs: 8×A100-40GB 4×V100-16GB 2×T4",
		"default": "6 nodes, 34 GPUs: 16×A100-40GB 8×H100-80GB 8×T4 2×V100-16GB",
		"scale:1": "1 node, 8 GPUs: 8×H100-80GB",
		"none":    "0 nodes, 0 GPUs",
	} {
		f, err := spec.Load(arg)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Summary(); got != want {
			t.Errorf("Summary() of %s = %q; want %q", arg, got, want)
		}
	}
}
