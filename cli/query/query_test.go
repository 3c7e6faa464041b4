package query

import (
	"fmt"
	"io"
	"testing"
	"time"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/test/screen"
)

var now = time.Date(2026, 11, 24, 15, 4, 5, 0, time.UTC)

// temperatures are readings of four GPUs, one of them free, with the labels that dcgm-exporter gives them.
func temperatures() []Series {
	var out []Series
	for i, value := range []string{"61", "61.5", "35", "NaN"} {
		labels := map[string]string{
			"__name__": "DCGM_FI_DEV_GPU_TEMP", "UUID": fmt.Sprintf("GPU-5c1ae0d2-8c4f-4d6e-9a53-00000000000%d", i), "device": fmt.Sprintf("nvidia%d", i%2), "gpu": fmt.Sprint(i % 2),
			"Hostname": fmt.Sprintf("gpu-a100-%d", 1+i/2), "modelName": "NVIDIA A100-SXM4-40GB", "exported_namespace": "vision", "exported_pod": fmt.Sprintf("resnet50-imagenet-worker-%d", i), "exported_container": "main",
		}
		if i == 2 {
			delete(labels, "exported_namespace")
			delete(labels, "exported_pod")
			delete(labels, "exported_container")
		}
		out = append(out, Series{Labels: labels, Values: []Value{{now, value}}})
	}
	return out
}

func TestTheTableOnScreens(t *testing.T) {
	for file, list := range map[string][]Series{
		"screens.txt":        temperatures(),
		"screens_one.txt":    temperatures()[:1],
		"screens_sum.txt":    {{Labels: map[string]string{"namespace": "vision"}, Values: []Value{{now, "12"}}}, {Labels: map[string]string{"namespace": "speech"}, Values: []Value{{now, "0.142857142"}}}},
		"screens_number.txt": {{Values: []Value{{now, "0.47"}}}},
	} {
		screen.File(t, file, func(w io.Writer) {
			c := &command{o: client.Options{Out: w, Err: w, Now: func() time.Time { return now }}}
			if err := c.print(list); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTheChartOnScreens(t *testing.T) {
	list := temperatures()[:2]
	for i := range list {
		list[i].Values = nil
		for k := range 60 {
			list[i].Values = append(list[i].Values, Value{now.Add(time.Duration(k-60) * time.Minute), fmt.Sprint(40 + 10*i + k%20)})
		}
	}
	screen.File(t, "screens_chart.txt", func(w io.Writer) {
		c := &command{o: client.Options{Out: w, Err: w, Now: func() time.Time { return now }}, since: "1h"}
		if err := c.print(list); err != nil {
			t.Fatal(err)
		}
	})
}
