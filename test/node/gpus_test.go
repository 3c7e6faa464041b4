//go:build linux

package node_test

import (
	"fmt"
	"strings"
)

// The GPUs of these tests, in the words of docs/tasks/fake-gpus.md: a file of GPUs that do
// not exist. Their device nodes are real and numbered as they are: a container's
// device rules are the kernel's.

// gpus writes n GPUs of a product and their nodes; mig are the profiles that one
// is cut into, by its place.
func gpus(product string, n int, mig map[int]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "node: %s\ngpus:\n", nodeName)
	for i := range n {
		fmt.Fprintf(&b, "- {product: %s, uuid: %s", product, uuid(i))
		if profiles, ok := mig[i]; ok {
			fmt.Fprintf(&b, ", autoReset: true, mig: [%s]", profiles)
		}
		b.WriteString("}\n")
	}
	b.WriteString("deviceNodes:\n- {path: /dev/nvidiactl}\n- {path: /dev/nvidia-uvm}\n")
	for i := range n {
		fmt.Fprintf(&b, "- {path: /dev/nvidia%d}\n", i)
	}
	return b.String()
}

const a100 = "NVIDIA A100-SXM4-40GB"

// wholeGPUs are n that are well and not cut.
func wholeGPUs(n int) string { return gpus(a100, n, nil) }

// cutGPUs are four, of which the first two are whole, one is cut into seven and
// one into two.
func cutGPUs() string {
	return gpus(a100, 4, map[int]string{2: strings.TrimSuffix(strings.Repeat("1g.5gb, ", 7), ", "), 3: "3g.20gb, 3g.20gb"})
}
