package devices

import "testing"

// Parts are rounded down, so what divides a GPU never adds up to more than it, and
// what divides it evenly adds up to all of it.
func TestPartsAddUpToOneGPU(t *testing.T) {
	for n := int64(1); n <= 1024; n++ {
		one := oneGPU.times(1, n)
		sum := one * part(n)
		if sum > oneGPU || n <= 16 && sum != oneGPU {
			t.Errorf("%d parts of 1/%d add up to %d of %d", n, n, sum, oneGPU)
		}
		if got := sum.milli(); got != 1000 {
			t.Errorf("%d parts of 1/%d are %d milli-GPUs, want 1000", n, n, got)
		}
		if got := sum.gpus(); got != 1 {
			t.Errorf("%d parts of 1/%d are %d GPUs, want 1", n, n, got)
		}
		if got, want := one.milliDown(), 1000/n; got != want {
			t.Errorf("1/%d is %d milli-GPUs, want %d", n, got, want)
		}
	}
	for milli := int64(0); milli <= 1000; milli++ {
		if p := oneGPU.times(milli, 1000); p.milli() != milli || p.milliDown() != milli {
			t.Errorf("%d milli-GPUs become %d, rounded down %d", milli, p.milli(), p.milliDown())
		}
	}
}

// Sizes come from annotations and labels of others: none overflows.
func TestTimesIsBoundedByItsReceiver(t *testing.T) {
	const most = 1<<63 - 1
	for _, c := range []struct {
		name    string
		of, all int64
		want    part
	}{
		{"half of the memory", 20 << 30, 40 << 30, oneGPU / 2},
		{"more than all", most, 1, oneGPU},
		{"nearly all of very much", most - 1, most, oneGPU - 1},
		{"of what is not known", 1, 0, 0},
		{"nothing", 0, 8, 0},
		{"less than nothing", -1, 8, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := oneGPU.times(c.of, c.all); got != c.want {
				t.Errorf("times(%d, %d) is %d, want %d", c.of, c.all, got, c.want)
			}
		})
	}
}
