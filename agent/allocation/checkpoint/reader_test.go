package checkpoint_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/agent/allocation/checkpoint"
)

// As kubelet 1.36 wrote it, shortened.
const written = `{"Data":{"PodDeviceEntries":[{"PodUID":"1a2b","ContainerName":"c","ResourceName":"nvidia.com/gpu","DeviceIDs":{"-1":["gpu-1","gpu-0"]},
"AllocResp":"Ch4KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBHZvaWQqFgoUYmVydGguZGV2L2FsbG9jPW5hYmM="}],"RegisteredDevices":{"nvidia.com/gpu":["gpu-0"]}},"Checksum":3214}`

func TestCheckpoint(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		entries    int
		err        string
	}{
		{"a kubelet's", written, 1, ""},
		{"a kubelet's that has given out nothing", `{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}`, 0, ""},
		{"nothing", ``, 0, "unknown format"},
		{"another file", `{"policyName":"none","defaultCpuSet":"","checksum":1}`, 0, "unknown format: no Data"},
		{"without a container", strings.Replace(written, "ContainerName", "Container", 1), 0, "entry 0 does not name pod, container and resource"},
		{"an answer that is none", strings.Replace(written, "Ch4K", "////", 1), 1, "the answer to container c of pod 1a2b"},
		{"a list of devices", strings.Replace(written, `{"-1":["gpu-1","gpu-0"]}`, `["gpu-0"]`, 1), 0, "unknown format"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, err := checkpoint.Parse([]byte(tt.text))
			if n != tt.entries || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%d entries, %v; want %d, %q", n, err, tt.entries, tt.err)
			}
		})
	}
}

// Two checkpoints in one tick of the file system's clock, of one size: the second has
// the number of the file that the first one replaced, and yet it is another.
func TestACheckpointThatLooksLikeOneOfBeforeIsRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubelet_internal_checkpoint")
	tick := time.Now().Add(-time.Hour)
	write := func(pod string) {
		t.Helper()
		err := os.WriteFile(path+".half", []byte(strings.Replace(written, "1a2b", pod, 1)), 0o600)
		if err = errors.Join(err, os.Chtimes(path+".half", tick, tick), os.Rename(path+".half", path)); err != nil {
			t.Fatal(err)
		}
	}
	reader := checkpoint.NewReader(dir)
	defer reader.Close()
	for i := range 20 {
		for _, pod := range []string{fmt.Sprintf("a%03d", i), fmt.Sprintf("b%03d", i)} {
			write(pod)
		}
		got, err := reader.Read()
		if want := fmt.Sprintf("b%03d", i); err != nil || len(got) != 1 || got[0].PodUID != want {
			t.Fatalf("the checkpoint has the entries %+v, %v; want one, of pod %s", got, err, want)
		}
	}
}

func FuzzCheckpoint(f *testing.F) {
	f.Add([]byte(written))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if n, err := checkpoint.Parse(raw); n < 0 || err != nil && err.Error() == "" {
			t.Errorf("%d entries, %q", n, err)
		}
	})
}
