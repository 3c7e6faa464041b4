package can

import (
	"io"
	"testing"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/test/screen"
)

func TestTheAnswersOnScreens(t *testing.T) {
	answers := []*answer{
		{File: "train.yaml", Line: 1, Kind: "Job", Name: "resnet", State: starts, Pods: 2, Starts: 2, Places: []place{{Node: "gpu-a100-1", Pods: 1, GPUs: []int{0, 1, 2, 3}}, {Node: "gpu-a100-2", Pods: 1, GPUs: []int{0, 2, 3, 4}}}, PricePerHour: new(21.96), Currency: "USD"},
		{
			File: "manifests/inference.yaml", Line: 40, Kind: "Deployment", Name: "whisper-large-v3", State: waits, Pods: 1, Code: "BERTH-C03", Cause: "waits for 4 nvidia.com/gpu, 2nd of 3 that wait for nvidia.com/gpu",
			Others: []string{"the image is not on the node yet"}, When: "likely by 15:40 UTC: speech/asr and two others run for another hour at most", Helps: []string{"ask for 2 nvidia.com/gpu instead of 4: it then fits on gpu-a100-1 now"}, Notes: []string{"the API server warns: would violate PodSecurity \"restricted:latest\""},
		},
		{File: "pod.yaml", Line: 1, Kind: "Pod", Name: "nine", State: waits, Never: true, Pods: 1, Code: "BERTH-C05", Cause: "the pod asks for 9 nvidia.com/gpu, and no node that it may use has more than 8"},
		{File: "quota.yaml", Line: 3, Kind: "ResourceQuota", Name: "q", State: nothing},
	}
	screen.File(t, "screens.txt", func(w io.Writer) {
		c := &command{Command: notebook.Command{Options: client.Options{Out: w, Err: w}}}
		if err := c.print(answers); err != nil {
			t.Fatal(err)
		}
	})
}
