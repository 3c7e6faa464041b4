package commit

import (
	"encoding/json"
	"reflect"
	"testing"

	"berth.dev/berth/core/sharing"
)

// texts are values of berth.dev/devices, and whether they have the form that Commitment writes.
var texts = map[string]bool{
	`{"main":[{"uuid":"GPU-1","milliGPU":1000,"memoryBytes":85899345920}]}`:                                                                              true,
	`{"a":[{"uuid":"GPU-1","milliGPU":0,"memoryBytes":0},{"uuid":"GPU-2","milliGPU":1,"memoryBytes":2}],"b":[{"uuid":"","milliGPU":3,"memoryBytes":4}]}`: true,
	``: false, `{}`: false, `null`: false, `{"main":[]}`: false, `{"main":null}`: false,
	`{"main":[{"uuid":"GPU-1","milliGPU":1000,"memoryBytes":1}]} `:                                      false,
	`{"main":[{"uuid":"GPU-1","milliGPU":1000,"memoryBytes":1},]}`:                                      false,
	`{"main":[{"uuid":"GPU-1","milliGPU":01,"memoryBytes":1}]}`:                                         false,
	`{"main":[{"uuid":"GPU-1","milliGPU":-1,"memoryBytes":1}]}`:                                         false,
	`{"main":[{"uuid":"GPU-1","milliGPU":1.0,"memoryBytes":1}]}`:                                        false,
	`{"main":[{"uuid":"GPU-1","milliGPU":,"memoryBytes":1}]}`:                                           false,
	`{"main":[{"uuid":"GPU-1","milliGPU":99999999999999999999,"memoryBytes":1}]}`:                       false,
	`{"main":[{"uuid":"GPU-\u0031","milliGPU":1,"memoryBytes":1}]}`:                                     false,
	`{"main":[{"uuid":"GPÜ","milliGPU":1,"memoryBytes":1}]}`:                                            false,
	`{"main":[{"uuid":"GPU-1","milliGPU":1}]}`:                                                          false,
	`{"main":[{"milliGPU":1,"uuid":"GPU-1","memoryBytes":1}]}`:                                          false,
	`{"m":[{"uuid":"1","milliGPU":1,"memoryBytes":1}],"m":[{"uuid":"2","milliGPU":1,"memoryBytes":1}]}`: false,
	`{"m":[{"uuid":"1","milliGPU":1,"memoryBytes":1}]`:                                                  false,
	`{"m":[{"uuid":"1`: false,
	`{"m":[{"uuid":"1","milliGPU":1001,"memoryBytes":1}]}`: false, // more than a GPU has
}

func TestWrittenReadsWhatCommitmentWritesAndNothingElse(t *testing.T) {
	for raw, want := range texts {
		if _, ok := written(raw); ok != want {
			t.Errorf("%q was read: %v, want %v", raw, ok, want)
		}
		agrees(t, raw)
	}
}

// agrees checks that a text which is read fast is read as JSON is.
func agrees(t *testing.T, raw string) {
	t.Helper()
	got, ok := written(raw)
	if !ok {
		return
	}
	for name := range got {
		if one, ok := writtenFor(raw, name); ok != (len(got) == 1) || ok && !reflect.DeepEqual(one, got[name]) {
			t.Errorf("of %q container %q was read as %v, %v", raw, name, one, ok)
		}
	}
	var list map[string][]committedDevice
	err := json.Unmarshal([]byte(raw), &list)
	want := map[string][]sharing.Named{}
	for name, devices := range list {
		for _, d := range devices {
			want[name] = append(want[name], sharing.Named{UUID: d.UUID, MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes})
		}
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q was read as %v; as JSON it is %v, %v", raw, got, want, err)
	}
}

func FuzzWritten(f *testing.F) {
	for raw := range texts {
		f.Add(raw)
	}
	f.Fuzz(agrees)
}

func TestCommitmentIsReadFast(t *testing.T) {
	raw, err := Commitment([]sharing.Part{{Name: "main"}, {Name: "side"}}, [][]sharing.Device{
		{{UUID: "GPU-4d8a", MilliGPU: 1000, MemoryBytes: 80 << 30}, {UUID: "MIG-1", MilliGPU: 0, MemoryBytes: 5 << 30}}, {{UUID: "GPU-4d8b", MilliGPU: 250, MemoryBytes: 20 << 30}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := written(raw); !ok {
		t.Errorf("%s is not read", raw)
	}
}

func BenchmarkParseCommitment(b *testing.B) {
	for b.Loop() {
		if _, err := ParseCommitment(`{"main":[{"uuid":"GPU-6f3c5a1e-8d2b-4f7a-9c01-2e5b7d90a4f3","milliGPU":1000,"memoryBytes":85899345920}]}`); err != nil {
			b.Fatal(err)
		}
	}
}
