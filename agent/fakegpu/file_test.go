package fakegpu_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/fakegpu"
)

func TestAWrongFileIsRefusedWithLineAndFix(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"a product that nobody makes", "gpus:\n- product: NVIDIA H2000\n", `f.yaml:2: gpus[0].product: "NVIDIA H2000" is not a known GPU; did you mean "NVIDIA H200"?`},
		{"a field that is not known", "gpus:\n- product: Tesla T4\n  coutn: 2\n", `f.yaml:3: gpus[0].coutn: unknown field; did you mean "count"?`},
		{"MIG on a GPU without", "gpus:\n- product: Tesla T4\n  mig: []\n", `f.yaml:3: gpus[0].mig: Tesla T4 has no MIG; remove mig; A100, A30, H100, H200, GH200, B200, B300 and RTX PRO 6000 Blackwell have it`},
		{"profiles that do not fit", "gpus:\n- product: NVIDIA H200\n  mig: [7g.141gb, 1g.18gb]\n", `f.yaml:3: gpus[0].mig: profile 1g.18gb: no placement left on one NVIDIA H200 beside 1x 7g.141gb; at most 0 of it fit there`},
		{"a GPU that is not there", "gpus: [{product: Tesla T4}]\nxid:\n- {gpu: 1, code: 79}\n", `f.yaml:3: xid[0].gpu: there is no GPU 1; the file has 1, counted from 0`},
		{"a call that is not made", "gpus: [{product: Tesla T4}]\nhang: [{call: nvmlDeviceGetUUUID}]\n", `f.yaml:2: hang[0].call: "nvmlDeviceGetUUUID" is never called; did you mean "nvmlDeviceGetUUID"?`},
		{"one UUID for two GPUs", "gpus: [{product: Tesla T4, count: 2, uuid: GPU-1}]\n", `f.yaml:1: gpus[0].uuid: one UUID for several GPUs; list the GPUs one by one`},
		{"too many", "gpus: [{product: Tesla T4, count: 200}, {product: Tesla T4, count: 57}]\n", `f.yaml:1: gpus[1].count: 57 is not 0 to 56; a node has at most 256 GPUs`},
		{"more work than there is time", "gpus: [{product: Tesla T4}]\nloads: [{gpu: 0, utilization: 80}]\n", `f.yaml:2: loads[0].utilization: is not a ratio; write 0 to 1, such as 0.8`},
		{"a node that is no device", "gpus: [{product: Tesla T4}]\ndeviceNodes: [{path: /etc/passwd}]\n", `f.yaml:2: deviceNodes[0].path: "/etc/passwd" is not a device node of NVIDIA's driver; write one such as /dev/nvidia0 or /dev/nvidia-caps/nvidia-cap1`},
		{"a node that leads out of /dev", "gpus: [{product: Tesla T4}]\ndeviceNodes:\n- {path: /dev/../etc/cron.d/x, hostPath: /dev/null}\n", `f.yaml:3: deviceNodes[0].path: "/dev/../etc/cron.d/x" is not a device node of NVIDIA's driver; write one such as /dev/nvidia0 or /dev/nvidia-caps/nvidia-cap1`},
		{"a node that leads out of a folder of NVIDIA's", "gpus: [{product: Tesla T4}]\ndeviceNodes: [{path: /dev/nvidia-caps/.., hostPath: /dev/null}]\n", `f.yaml:2: deviceNodes[0].path: "/dev/nvidia-caps/.." is not a device node of NVIDIA's driver; write one such as /dev/nvidia0 or /dev/nvidia-caps/nvidia-cap1`},
		{"a disk in place of a GPU", "gpus: [{product: Tesla T4}]\ndeviceNodes:\n- path: /dev/nvidia0\n  hostPath: /dev/vda\n", `f.yaml:4: deviceNodes[0].hostPath: "/dev/vda" is a device of the node that containers must not get; write hostPath: /dev/null (or /dev/zero, /dev/full), or start the agent with --fake-devices "/dev/vda"`},
		{"a file in place of a GPU", "gpus: [{product: Tesla T4}]\ndeviceNodes: [{path: /dev/nvidia0, hostPath: /dev/null/../../etc/shadow}]\n", `f.yaml:2: deviceNodes[0].hostPath: "/dev/null/../../etc/shadow" is a device of the node that containers must not get; write hostPath: /dev/null (or /dev/zero, /dev/full), or start the agent with --fake-devices "/dev/null/../../etc/shadow"`},
		{"a GPU of the node itself", "gpus: [{product: Tesla T4}]\ndeviceNodes: [{path: /dev/nvidia0}]\n", `f.yaml:2: deviceNodes[0].path: "/dev/nvidia0" is a device of the node that containers must not get; write hostPath: /dev/null (or /dev/zero, /dev/full), or start the agent with --fake-devices "/dev/nvidia0"`},
		{"a UUID that is none", "gpus: [{product: Tesla T4, uuid: \"GPU-1,LD_PRELOAD=x\"}]\n", `f.yaml:1: gpus[0].uuid: "GPU-1,LD_PRELOAD=x" is not a UUID; write letters, digits and hyphens, such as GPU-00000000-0000-4000-8000-000000000000`},
		{"an Xid that is none", "gpus: [{product: Tesla T4}]\nxid: [{gpu: 0, code: 9223372036854775807}]\n", `f.yaml:2: xid[0].code: is not an Xid; write one such as 79; NVIDIA's Xid catalog lists them`},
		{"more memory than bytes can count", "gpus: [{product: Tesla T4}]\nloads: [{gpu: 0, memoryMiB: 9007199254740992}]\n", `f.yaml:2: loads[0].memoryMiB: 9007199254740992 is not 0 to 1073741824`},
		{"a process that is none", "gpus: [{product: Tesla T4}]\nloads: [{gpu: 0, pid: -7}]\n", `f.yaml:2: loads[0].pid: -7 is not 0 to 4194304`},
		{"more peers than GPUs", "gpus: [{product: Tesla T4}]\nloads: [{gpu: 0, peers: 3000000}]\n", `f.yaml:2: loads[0].peers: 3000000 is not 0 to 256`},
		{"a moment that never comes", "gpus: [{product: Tesla T4}]\nlost: [{gpu: 0, after: 2000000h}]\n", `f.yaml:2: lost[0].after: 2000000h0m0s is too long; write 87600h0m0s or less, or leave the entry out`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := fakegpu.Parse("f.yaml", []byte(test.text))
			if err == nil || err.Error() != test.want {
				t.Errorf("Parse = %v\nwant    %s", err, test.want)
			}
		})
	}
}

// FuzzParse: whatever a file says, it is refused or served; nothing panics.
func FuzzParse(f *testing.F) {
	f.Add([]byte("gpus: [{product: H200, count: 2, mig: [1g.18gb]}]\nloads: [{gpu: 1, mig: 3, utilization: 1}]"))
	f.Add([]byte("gpus: [{product: Tesla K80}]\nxid: [{gpu: 0, code: 79}]\nlost: [{gpu: 0}]\nremap: [{gpu: 0, failed: yes}]"))
	f.Add([]byte("driver: {cuda: '13.0', missing: [nvmlDeviceGetName]}\ndeviceNodes: [{path: /dev/nvidia0, hostPath: /dev/null}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := fakegpu.Parse("f.yaml", data)
		if err != nil || len(file.Hang) > 0 || len(file.Crash) > 0 {
			return
		}
		_, d := node(t, string(data))
		s := d.Snapshot()
		if s.Failed == "" {
			if _, err := d.CDI(); err != nil {
				t.Errorf("CDI = %v", err)
			}
		}
	})
}

func TestTheSpecificationHasTheNodesOfTheFile(t *testing.T) {
	_, d := node(t, `
gpus: [{product: NVIDIA H200, mig: [1g.18gb]}, {product: NVIDIA H200}]
deviceNodes:
- {path: /dev/nvidiactl, hostPath: /dev/null}
- {path: /dev/nvidia0}
- {path: /dev/nvidia-caps/nvidia-cap66, hostPath: /dev/null, gpu: 0, mig: 0}`, "/dev/nvidia*")
	s := d.Snapshot()
	raw, err := d.CDI()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	type m = map[string]any
	type list = []any
	zero, one, mig := s.GPUs[0].UUID, s.GPUs[1].UUID, s.GPUs[0].MIG[0]
	want := m{
		"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu",
		"containerEdits": m{"env": list{"BERTH_FAKE_GPUS=true"}, "deviceNodes": list{m{"path": "/dev/nvidiactl", "hostPath": "/dev/null"}}},
		"devices": list{
			m{"name": zero, "containerEdits": m{"env": list{"BERTH_FAKE_GPU_0=" + zero}, "deviceNodes": list{m{"path": "/dev/nvidia0"}}}},
			m{"name": mig.UUID, "containerEdits": m{
				"env":         list{"BERTH_FAKE_GPU_0_11_0=" + mig.UUID},
				"deviceNodes": list{m{"path": "/dev/nvidia0"}, m{"path": "/dev/nvidia-caps/nvidia-cap66", "hostPath": "/dev/null"}},
			}},
			m{"name": one, "containerEdits": m{"env": list{"BERTH_FAKE_GPU_1=" + one}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CDI (-want +got):\n%s", diff)
	}
	if nodes := s.GPUs[0].Nodes; len(nodes) != 1 || nodes[0] != "/dev/nvidia0" {
		t.Errorf("Nodes of GPU 0 = %v, want /dev/nvidia0", nodes)
	}
}

func TestDevicesThatContainersMayBeGivenAreNamed(t *testing.T) {
	const text = "gpus: [{product: Tesla T4}]\ndeviceNodes: [{path: /dev/nvidia-caps/nvidia-cap1, hostPath: %s}]\n"
	for _, c := range []struct {
		name, host string
		allowed    []string
		ok         bool
	}{
		{"the device that is named", "/dev/fuse", []string{"/dev/fuse"}, true},
		{"a device that matches", "/dev/nvidia0", []string{"/dev/nvidia*"}, true},
		{"a device below one that matches", "/dev/nvidia-caps/nvidia-cap1", []string{"/dev/nvidia*"}, false},
		{"a way out of what matches", "/dev/nvidia0/../vda", []string{"/dev/nvidia0/../*", "/dev/nvidia*"}, false},
		{"another device", "/dev/vda", []string{"/dev/nvidia*", "/dev/fuse"}, false},
	} {
		_, err := fakegpu.Parse("f.yaml", fmt.Appendf(nil, text, c.host), c.allowed...)
		if (err == nil) != c.ok {
			t.Errorf("%s: %s among %v: %v", c.name, c.host, c.allowed, err)
		}
	}
	if err := fakegpu.CheckDevices([]string{"/dev/nvidia*", "/dev/nvidia-caps/nvidia-cap?", "/dev/fuse"}); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"", "/etc/shadow", "/dev", "/dev/../etc/shadow", "/dev/*/x", "nvidia0", "/dev/[", "/dev/nvidia0/"} {
		if fakegpu.CheckDevices([]string{"/dev/nvidia0", wrong}) == nil {
			t.Errorf("%q is taken for a device", wrong)
		}
	}
}

func TestTheDocumentedFileIsRight(t *testing.T) {
	page, err := os.ReadFile("../../docs/tasks/fake-gpus.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, table, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/tasks/fake-gpus.md has no YAML example")
	}
	if f := parse(t, example); len(f.GPUs) != 2 || len(f.Work) != 2 {
		t.Errorf("the example has %d groups and %d loads, want 2 and 2", len(f.GPUs), len(f.Work))
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+: .*?)` \\|").FindAllStringSubmatch(table, -1) {
		if _, err := fakegpu.Parse(row[1], []byte("gpus: [{product: NVIDIA H200}]\n"+strings.TrimPrefix(row[1], "|"))); err != nil {
			t.Errorf("%s is refused: %v", row[1], err)
		}
	}
}
