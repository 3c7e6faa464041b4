package usage

import "testing"

func TestStrands(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name string
		left Room
		want Reason
	}{
		{"just enough", Room{1000, gib}, ""},
		{"too little CPU", Room{999, 64 * gib}, NoCPU},
		{"too little memory", Room{64_000, gib - 1}, NoMemory},
		{"too little of both is a lack of CPU", Room{}, NoCPU},
		{"more is taken than there is", Room{8000, 8 * gib}.Minus(Room{9000, gib}), NoCPU},
	} {
		if got := c.left.Strands(SmallestPod); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := (Room{}).Strands(Room{}); got != "" {
		t.Errorf("where the smallest pod needs nothing the reason is %q", got)
	}
}
