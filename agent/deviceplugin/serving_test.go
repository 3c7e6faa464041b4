package deviceplugin_test

import (
	"net"
	"path/filepath"
	"testing"

	"berth.dev/berth/agent/deviceplugin"
)

func TestServingNamesAPluginOfNVIDIAsThatAnswers(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	n := offering(gpus, "gpu", 2)
	serve(t, deviceplugin.Options{Dir: dir}.Quick(), n)
	await(t, k, gpus, 2, 2)
	silent, err := net.Listen("unix", filepath.Join(dir, "rdma.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	is := func(when, want string) {
		t.Helper()
		if got := deviceplugin.Serving(wait(t), dir); got != want {
			t.Errorf("%s %q serves, want %q", when, got, want)
		}
	}
	is("beside Berth's own", "")
	p := nvidia(dir, "nvidia-mig-1g.10gb.sock") // of a resource that Berth does not offer
	p.Resource = "nvidia.com/mig-1g.10gb"
	run(t, p)
	is("beside NVIDIA's", filepath.Join(dir, "nvidia-mig-1g.10gb.sock"))
	p.Kill()
	is("beside the socket of one that was killed", "")
}
