package request

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/checkpoint"
	"berth.dev/berth/core/queue"
)

// What can be wrong with what a pod asks for of GPUs: each a sentence that says
// what, and what to write instead. Check and the admission policy
// berth-requests say them in these words.
const (
	FaultNoSize    = "the annotation gpu-fraction-num-devices says of how many GPUs, but not how much of each: add gpu-fraction or gpu-memory, or leave it out"
	FaultTwoSizes  = "the annotations gpu-fraction and gpu-memory both say how much of a GPU: keep one of them"
	FaultFraction  = "the annotation gpu-fraction is not a part of one GPU: write a number above 0 and up to 1, such as \"0.5\", and for several GPUs ask for nvidia.com/gpu"
	FaultMemory    = "the annotation gpu-memory is not an amount of memory: write whole MiB of one GPU, such as \"4096\""
	FaultDevices   = "the annotation gpu-fraction-num-devices is not a number of GPUs: write 1 or more, or leave it out for one"
	FaultContainer = "the annotation gpu-fraction-container-name names no container of the pod: write the name of one, or leave it out for the first"
	FaultTwice     = "the annotation gpu-fraction or gpu-memory asks for a share of a GPU, and a container's resources ask for GPUs as well: keep one of the two"
	FaultMIG       = "a container asks for memory of a GPU by size, and for MIG devices, which have memory of their own: leave one of the two out"
	FaultSpellings = "a container asks for a share of a GPU in two ways: keep one of nvidia.com/gpu-memory (GiB), HAMi's nvidia.com/gpumem, -percentage and gpucores, and Volcano's volcano.sh/vgpu-*"
	FaultDivided   = "a container asks for nvidia.com/gpu.shared, which is a share already, and for memory of a GPU: leave one of the two out"
	FaultVolcano   = "volcano.sh/vgpu-number says how many GPUs, and nvidia.com/gpu does so too: keep one of them"
	FaultAmounts   = "a container says in MiB and in percent how much memory of a GPU it wants: keep one of them"
	FaultPercent   = "nvidia.com/gpumem-percentage, gpucores and volcano.sh/vgpu-memory-percentage, vgpu-cores are in percent of one GPU: write 1 to 100, and for several GPUs a greater nvidia.com/gpu or vgpu-number"
)

// Check says what is wrong with what a pod asks for of GPUs, or nil: a
// share that cannot be read or is none, one that is asked for in two ways, or
// kinds of devices that no GPU gives together. Errors are the Fault constants.
// It is the admission policy berth-requests, for pods that came by without it.
func Check(pod *v1.Pod) error {
	if fault := checkKAI(pod); fault != "" {
		return errors.New(fault)
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if fault := checkContainer(ContainerAmounts(&list[i])); fault != "" {
				return errors.New(fault)
			}
		}
	}
	return nil
}

// checkKAI checks the annotations.
func checkKAI(pod *v1.Pod) string {
	fraction, memory := pod.Annotations[api.AnnotationKAIFraction], pod.Annotations[api.AnnotationKAIMemory]
	if fraction == "" && memory == "" {
		if _, ok := pod.Annotations[api.AnnotationKAIDevices]; ok {
			return FaultNoSize
		}
		return ""
	}
	_, sizeOK := kaiSize(fraction, memory)
	_, countOK := kaiDevices(pod)
	_, there := kaiContainer(pod)
	switch {
	case fraction != "" && memory != "":
		return FaultTwoSizes
	case !sizeOK && fraction != "":
		return FaultFraction
	case !sizeOK:
		return FaultMemory
	case !countOK:
		return FaultDevices
	case !there:
		return FaultContainer
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if len(ContainerAmounts(&list[i])) > 0 {
				return FaultTwice
			}
		}
	}
	return ""
}

// checkContainer checks the resources of one container.
func checkContainer(want counts) string {
	if len(want) == 0 {
		return ""
	}
	some := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return want[n] > 0 })
	}
	memory := some(api.ResourceGPUMemory)
	ofHAMi := some(hami.memory, hami.percentage, hami.cores)
	ofVolcano := some(volcano.number, volcano.memory, volcano.percentage, volcano.cores)
	mig := false
	for name := range want {
		mig = mig || strings.HasPrefix(name, api.ResourceMIGPrefix)
	}
	switch {
	case mig && (memory || ofHAMi || ofVolcano):
		return FaultMIG
	case memory && (ofHAMi || ofVolcano) || ofHAMi && ofVolcano:
		return FaultSpellings
	case some(api.ResourceGPUShared) && (memory || ofHAMi || ofVolcano):
		return FaultDivided
	case ofVolcano && some(api.ResourceGPU):
		return FaultVolcano
	}
	for _, s := range spellings {
		switch {
		case want[s.memory] > 0 && want[s.percentage] > 0:
			return FaultAmounts
		case want[s.percentage] > 100 || want[s.cores] > 100:
			return FaultPercent
		}
	}
	return ""
}

// What may not be as it reads.
const (
	WarningCores   = "gpucores or vgpu-cores without an amount of memory takes all memory of a GPU, as in HAMi and Volcano, so no other pod gets a part of it: add nvidia.com/gpumem or volcano.sh/vgpu-memory to share it"
	WarningFine    = "the annotation gpu-fraction is cut to thousandths of a GPU"
	WarningVisible = "a container sets NVIDIA_VISIBLE_DEVICES and the pod asks for no GPU: where the container runtime allows it, it uses GPUs that others hold; remove the variable and set the limit nvidia.com/gpu"
	WarningSaves   = "the annotation berth.dev/checkpoint does not say how work is saved, so the pod counts as one that saves none: write on-signal, periodic: and how often, such as periodic:30m, or none"
	WarningRunTime = "the annotation berth.dev/max-run-time does not say how long the pod runs, so it counts as one that does not say when it ends: write a duration such as 90m or 2h"
)

// FaultLargest is what is wrong with a pod that asks for more memory of one GPU
// than any has: %d is the GiB of the largest.
const FaultLargest = "a container asks for more memory of one GPU than any GPU of the cluster has: the largest has %d GiB; ask for less, or for several GPUs with nvidia.com/gpu"

// CheckLimit says whether a pod asks for more memory of one GPU than the largest
// GPU has, or nil. largestMiB of 0 is not known.
func CheckLimit(pod *v1.Pod, largestMiB int64) error {
	if largestMiB <= 0 {
		return nil
	}
	for _, p := range Parts(pod) {
		for _, a := range p.Asks {
			size, _, _ := a.ShareOf()
			if size.MemoryMiB > largestMiB || a.LeastGiB > largestMiB/1024 {
				return fmt.Errorf(FaultLargest, largestMiB/1024)
			}
		}
	}
	return nil
}

// Warnings says what of a pod's request works, and perhaps not as it
// reads.
func Warnings(pod *v1.Pod) []string {
	var out []string
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			want := ContainerAmounts(&list[i])
			for _, s := range spellings {
				if want[s.cores] > 0 && want[s.memory]+want[s.percentage] == 0 && !slices.Contains(out, WarningCores) {
					out = append(out, WarningCores)
				}
			}
		}
	}
	if _, digits, _ := strings.Cut(pod.Annotations[api.AnnotationKAIFraction], "."); len(strings.TrimRight(digits, "0")) > 3 && len(strings.Trim(digits, "0123456789")) == 0 {
		out = append(out, WarningFine)
	}
	if _, err := checkpoint.Parse(pod.Annotations[api.AnnotationCheckpoint]); err != nil {
		out = append(out, WarningSaves)
	}
	if _, err := queue.ReadRunTime(pod.Annotations[api.AnnotationMaxRunTime]); err != nil {
		out = append(out, WarningRunTime)
	}
	if sees := func(c v1.Container) bool { return VisibleDevices(&c) != "" }; slices.ContainsFunc(pod.Spec.Containers, sees) && len(Of(pod)) == 0 {
		out = append(out, WarningVisible)
	}
	return out
}

// VisibleVariable is what NVIDIA's container toolkit reads the GPUs of a container from.
const VisibleVariable = "NVIDIA_VISIBLE_DEVICES"

// VisibleDevices returns which GPUs a container sees by VisibleVariable, where the toolkit accepts that; "" is none.
func VisibleDevices(c *v1.Container) string {
	for i := range c.Env {
		if c.Env[i].Name == VisibleVariable && ShowsDevices(c.Env[i].Value) {
			return c.Env[i].Value
		}
	}
	return ""
}

// ShowsDevices reports whether a value of VisibleVariable stands for GPUs.
func ShowsDevices(value string) bool { return value != "" && value != "none" && value != "void" }
