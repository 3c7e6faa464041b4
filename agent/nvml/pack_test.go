package nvml

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
)

// Whatever a sample is, it comes out as it went in; every field of a Reading is
// carried.
func TestPackedSamplesAreTheSame(t *testing.T) {
	full := Sample{UUID: "GPU-1", Absent: []string{"A", "B"}, More: []float64{0, 1.5, -1}, Processes: []Process{{PID: 7, MemoryBytes: -1}, {PID: 1 << 30, MemoryBytes: 1 << 40}}}
	v := reflect.ValueOf(&full.Reading).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.CanFloat():
			f.SetFloat(float64(i) + 0.1)
		case f.CanInt():
			f.SetInt(int64(i+1) << 40)
		default:
			f.SetBool(true)
		}
	}
	odd := Sample{Reading: gpu.Reading{PowerWatts: math.SmallestNonzeroFloat64, EnergyMillijoules: math.MinInt64, Xid: -1}}
	names := map[string]string{}
	for _, want := range [][]Sample{nil, {}, {full}, {odd, full, {}}, make([]Sample, 300)} {
		got, err := unpack(pack(want), names)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d samples are %d, %v", len(want), len(got), err)
		}
		for i := range want {
			if diff := cmp.Diff(want[i], got[i]); diff != "" {
				t.Errorf("sample %d of %d (-packed +unpacked):\n%s", i, len(want), diff)
			}
		}
	}
	whole := pack([]Sample{full, full})
	for n := 1; n < len(whole); n++ {
		if got, err := unpack(whole[:n], names); err == nil {
			t.Fatalf("%d of %d bytes are %v", n, len(whole), got)
		}
	}
	for i := range 5000 {
		_, _ = unpack(pack([]Sample{{UUID: fmt.Sprint(i)}}), names)
	}
	if len(names) > 5000 {
		t.Errorf("%d names are kept for ever", len(names))
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte(pack([]Sample{{UUID: "GPU-1", Absent: []string{"A"}, More: []float64{1}}})))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := unpack(b, map[string]string{})
		if err != nil {
			return
		}
		again, err := unpack(pack(got), map[string]string{})
		if err != nil || len(again) != len(got) {
			t.Fatalf("%v is %v, %v when packed again", got, again, err)
		}
	})
}
