//go:build linux

package node_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestLeastPrivilege runs the agent with what deploy/agent-daemonset.yaml gives it: no
// capability at all, and of the node's files only those that the manifest mounts
// writable.
//
// rows: AS-28
func TestLeastPrivilege(t *testing.T) {
	if !isolated(t) {
		return
	}
	mounts := manifestMounts(t, "agent-daemonset.yaml")
	want := map[string]bool{ // by folder of the node, whether it is read only
		kubeletDir + "/device-plugins": false, kubeletDir + "/pod-resources": true, "/var" + cdiDir: false, "/var/lib/berth": false,
		"/usr": true, "/lib": true, "/dev": true, "/sys/fs/cgroup": true,
	}
	if fmt.Sprint(mounts) != fmt.Sprint(want) {
		t.Fatalf("the manifest mounts %v, want %v: whoever changes it says here what the agent may write", mounts, want)
	}
	delete(want, "/usr")
	delete(want, "/lib")
	delete(want, "/dev")
	want["/run/nvidia/mps"], want["/run/nvidia/mps/shm"], want["/"] = false, false, true
	if got := manifestMounts(t, "agent-daemonset-privileged.yaml"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("the privileged manifest mounts %v, want %v", got, want)
	}
	n := newNode(t)
	n.startKubelet()
	makeNodes(t, 4)
	n.startAgent(t, wholeGPUs(4)) // makes the command line
	n.offers(t, gpuResource, 4)
	n.killAgent(t)
	n.offersWithoutAgent(t, 0)
	n.agentArgs = confined(n.agentArgs, mounts)
	n.runAgent(t)
	n.offers(t, gpuResource, 4)
	n.isConfined(t)
	n.apply(pod("committed", commit("c", uuid(3)), 1), uncommitted("other", gpuResource, 2))
	if err := only(n.sees(t, "committed", "c"), 3); err != nil {
		t.Error(err)
	}
	if err := realUUIDs(n.sees(t, "other", "c"), 2); err != nil {
		t.Error(err)
	}
	n.held(t, 3)
	n.restartKubelet()
	n.offers(t, gpuResource, 4)
	n.ranOn(t, "committed")
	n.remove(t, "committed", "other")
	n.held(t, 0)
	if log, err := os.ReadFile(n.agent.log); err != nil || strings.Contains(string(log), "denied") || strings.Contains(string(log), "read-only") {
		t.Errorf("%v; the agent's log tells of something that it may not:\n%s", err, log)
	}
}

// manifestMounts are the folders of the node that a DaemonSet of deploy/ mounts, and
// whether it does so read only.
func manifestMounts(t *testing.T, name string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var set appsv1.DaemonSet
	if err := yaml.UnmarshalStrict(text, &set); err != nil {
		t.Fatal(err)
	}
	spec := set.Spec.Template.Spec
	c := spec.Containers[0]
	if s := c.SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		t.Error("the root of the container can be written")
	}
	out := map[string]bool{}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			t.Fatalf("there is no volume %s", m.Name)
		}
		if host := spec.Volumes[i].HostPath; host != nil {
			out[host.Path] = m.ReadOnly
		}
	}
	return out
}

// confined runs a command without capabilities, in a view of the node in which only
// what may be written can be.
func confined(args []string, mounts map[string]bool) []string {
	var b strings.Builder
	b.WriteString("set -e\n")
	for dir, readOnly := range mounts {
		if !readOnly {
			fmt.Fprintf(&b, "mkdir -p %s && mount --bind %s %s\n", dir, dir, dir)
		}
	}
	for _, dir := range []string{"/", "/run", "/var/log", kubeletDir, "/dev"} {
		fmt.Fprintf(&b, "mountpoint -q %s || mount --bind %s %s\nmount -o remount,bind,ro %s\n", dir, dir, dir, dir)
	}
	b.WriteString(`exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all --ambient-caps=-all "$@"`)
	return append([]string{"unshare", "--mount", "sh", "-c", b.String(), "sh"}, args...)
}

// isConfined asks the kernel whether it is so.
func (n *node) isConfined(t *testing.T) {
	t.Helper()
	pid := n.agent.cmd.Process.Pid
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{"CapEff", "CapPrm", "CapBnd"} {
		if !strings.Contains(string(status), set+":\t0000000000000000\n") {
			t.Errorf("the agent has capabilities:\n%s", lines(status, "Cap"))
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	options := map[string]string{} // the last one counts
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		options[f[4]] = f[5]
	}
	for _, dir := range []string{"/", "/run", kubeletDir} {
		if !strings.HasPrefix(options[dir], "ro") {
			t.Errorf("%s is mounted %q for the agent", dir, options[dir])
		}
	}
}
