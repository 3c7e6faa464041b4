package config_test

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"berth.dev/berth/agent/config"
)

// bomb is a document in which each of levels names the one before ten times.
func bomb(levels int) string {
	var b strings.Builder
	b.WriteString("x0: &x0 [lol]\n")
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, "x%d: &x%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d,", i-1), 10), ","))
	}
	return b.String()
}

// TestHostileDocumentsCostLittle reads documents as large as a file may be that stand
// for far more than they hold. All that any reader allocates for one, together, is
// below the memory of a small node.
func TestHostileDocumentsCostLittle(t *testing.T) {
	const (
		size = 1 << 20   // of a document
		most = 128 << 20 // bytes allocated, of which most are freed on the way
	)
	for _, tt := range []struct{ name, text string }{
		{"replicas that memory does not hold", "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3000000}]}}"},
		{"MIG devices that memory does not hold", "mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 100000000}}]}"},
		{"aliases that double and double", bomb(12)},
		{"merges of merges", "a: &a {x: 1}\n" + strings.Repeat("b: &a {<<: [*a, *a, *a, *a]}\n", 1000)},
		{"lists in lists in lists", strings.Repeat("[", size/2) + strings.Repeat("]", size/2)},
		{"mappings in mappings", strings.Repeat("{a: ", size/8) + strings.Repeat("}", size/8)},
		{"a list of more than there is", "sharing: {timeSlicing: {resources: [" + strings.Repeat("{},", size/4) + "]}}"},
		{"a word of a megabyte", strings.Repeat("x", size) + ": 1"},
		{"a number of a megabyte", "sharing: {timeSlicing: {resources: [{name: gpu, replicas: " + strings.Repeat("9", size) + "}]}}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for reader, read := range map[string]func([]byte) error{
				"Parse": func(data []byte) error { _, _, err := config.Parse("f", data); return err },
				"ParseMIG": func(data []byte) error {
					file, err := config.ParseMIG("f", data)
					return errors.Join(append(slices.Collect(maps.Values(file.Faults)), err)...)
				},
			} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := read([]byte(tt.text))
				runtime.ReadMemStats(&after)
				if err == nil {
					t.Errorf("%s takes it", reader)
				}
				if got := after.TotalAlloc - before.TotalAlloc; got > most {
					t.Errorf("%s allocates %d MiB in all; %d is the most", reader, got>>20, most>>20)
				} else {
					t.Logf("%s: %d MiB, %.120v", reader, got>>20, err)
				}
			}
		})
	}
}
