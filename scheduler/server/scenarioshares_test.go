package server

import (
	"testing"
	"testing/synctest"
)

// TestSharesOfPeers plays what the tests of others say of parts of GPUs, and of the
// order in which pods start.
func TestSharesOfPeers(t *testing.T) {
	bubbles(t)
	for _, s := range sharesOfPeers() {
		t.Run(s.name, func(t *testing.T) { synctest.Test(t, s.play) })
	}
}

func sharesOfPeers() []scenario {
	const (
		parts  = kai + "allocate/allocateFractionalGpu_test.go"
		memory = kai + "allocate/allocateGpuMemory_test.go"
		ends   = kai + "integration_tests/deletion_tests/deletion_test.go"
		order  = kai + "integration_tests/allocate/allocate_test.go"
	)
	return []scenario{
		{"a half joins a half on its GPU", parts, "2", "a part=0.5 | b part=0.5", "a&b"},
		{"a half joins a half on another node", parts, "2 2", "a part=0.5 on=n1 | b part=0.5", "a&b"},
		{"a half goes to another GPU where less than a half is left", parts, "2", "a part=0.6 | b part=0.5", "a^b"},
		{"a half goes to another GPU than a whole", parts, "2", "a | b part=0.5", "a^b"},
		{"a whole goes to another GPU than a half", parts, "2", "a part=0.5 | b", "a^b"},
		{"of five parts the one that is too many waits", parts, "2", "a part=0.5 | b part=0.6 | c part=0.5 | d part=0.5 | e part=0.3", "a&c b&e d=0"},
		{"a half waits for the end of a half, and joins the other", parts, "1", "a part=0.5 ; b part=0.5 | c part=0.5 | ? c=0 | end a", "b&c"},
		{"a part joins the GPU with the least room", parts, "2", "a part=0.5 | b part=0.7 | c part=0.2", "b&c"},
		{"parts of a gang start together, or none", parts, "1", "g n=3 part=0.5", "g=0"},
		{"parts of a gang fill the GPUs that there are", parts, "2", "g n=4 part=0.5", "g"},
		{"a share by memory gets an empty GPU", memory, "1", "a mem=7680", "a"},
		{"two shares by memory that do not fit together are apart", memory, "2", "a mem=10000 | b mem=10000", "a^b"},
		{"a share by memory that is larger than what is left waits", memory, "1", "a mem=10000 | b mem=10000", "b=0"},
		{"a GPU is free again when its one part has ended", ends, "1", "a part=0.5 | end a | b", "b"},
		{"a GPU is free again when both its parts have ended", ends, "1", "a part=0.5 ; b part=0.5 | end a | c | ? c=0 | end b", "c"},
		{"two GPUs are free again when a part on each has ended", ends, "2", "a part=0.8 ; b part=0.8 | end a ; end b | c gpus=2", "c"},
		{"a part takes the place of one that has ended beside another", ends, "1", "a part=0.5 ; b part=0.5 | end a | c part=0.5", "b&c"},
		{"of two that wait the one that came first starts", order, "1", "x | a | b | end x", "a b=0"},
		{"of two that wait the one of higher priority starts", order, "1", "x prio=300 | low prio=50 | high | end x", "high low=0"},
		{"a small pod starts where a large one that came first does not fit", order, "2", "x | big gpus=2 | small", "small big=0"},
		{"two pods of a queue of three start on two GPUs, in their order", order, "2", "x gpus=2 | a | b | c | end x", "a b c=0"},
		{"of pods that wait priority goes before age whatever their number", kaiE2E + "allocate/priority/order_test.go", "2", "x gpus=2 prio=300 | a prio=50 ; b prio=60 ; c prio=70 ; d prio=80 | end x", "c d a=0 b=0"},
	}
}
