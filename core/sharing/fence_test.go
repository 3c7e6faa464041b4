package sharing

import "testing"

func TestFence(t *testing.T) {
	for _, c := range []struct {
		name string
		ways Ways
		want string
		safe bool
	}{
		{"a whole GPU", WayWhole, "all memory of the GPU", true},
		{"a MIG device", WayMIG, "own memory", true},
		{"a share by time of a MIG device is one by time", WayMIG | WayTimeSlicing, "not protected: each pod can fill the GPU", false},
		{"a share by MPS of a MIG device", WayMIG | WayMPS, "limited for each pod by the MPS daemon", true},
		{"a share by memory", WayMemory, "counted, not enforced: a pod can use more than its share", false},
		{"nothing is known", 0, "not known", false},
	} {
		if f := c.ways.Fence(); f.Memory != c.want || f.Safe != c.safe || f.Isolation == "" {
			t.Errorf("%s: %+v, want %q, safe %v", c.name, f, c.want, c.safe)
		}
	}
}
