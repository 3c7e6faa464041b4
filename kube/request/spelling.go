package request

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
)

// spelling is how users of another program ask for shares of GPUs in a
// container's resources: of how many GPUs, and of each so much memory in MiB or
// in percent, and so much compute in percent.
//
// Source: docs of HAMi 2.10 (allocating device memory and cores) and of Volcano
// 1.15 (vGPU). In both a container that names no memory gets all of it.
type spelling struct {
	program                           string
	number, memory, percentage, cores string
}

var (
	hami = spelling{
		"HAMi", api.ResourceGPU, api.ResourceHAMiMemory, api.ResourceHAMiPercentage, api.ResourceHAMiCores,
	}
	volcano = spelling{
		"Volcano", api.ResourceVolcanoNumber, api.ResourceVolcanoMemory, api.ResourceVolcanoPercentage, api.ResourceVolcanoCores,
	}
	spellings = []*spelling{&hami, &volcano}
)

// IsForeignShare reports whether a resource is of the spelling of HAMi or Volcano alone.
func IsForeignShare(name string) bool {
	if !strings.HasPrefix(name, "nvidia.com/gpu") && !strings.HasPrefix(name, "volcano.sh/vgpu-") {
		return false
	}
	switch name {
	case api.ResourceHAMiMemory, api.ResourceHAMiPercentage, api.ResourceHAMiCores,
		api.ResourceVolcanoNumber, api.ResourceVolcanoMemory, api.ResourceVolcanoPercentage, api.ResourceVolcanoCores:
		return true
	}
	return false
}

// IsShareBySize reports whether a resource, or the name of an annotation, asks for shares
// by size.
func IsShareBySize(name string) bool {
	switch name {
	case api.ResourceGPUMemory, api.AnnotationKAIFraction, api.AnnotationKAIMemory:
		return true
	}
	return IsForeignShare(name)
}

// foldSpellings takes out of want what is in the spelling of others, and gives
// it as asks for shares. Percent of compute and of memory are parts of one GPU,
// and the greater counts for both; compute beside MiB counts where it is more
// than the memory's part. Without a word on memory a share has all of a GPU.
func foldSpellings(want counts) []sharing.Ask {
	var out []sharing.Ask
	for _, s := range spellings {
		memory, percentage, cores := want[s.memory], want[s.percentage], want[s.cores]
		if memory+percentage+cores == 0 && (s == &hami || want[s.number] == 0) {
			continue
		}
		a := sharing.Ask{Resource: s.memory, Count: max(1, want[s.number])}
		switch {
		case memory > 0:
			a.Share = sharing.ShareSize{MemoryMiB: memory, MilliGPU: 10 * min(cores, 1000)}
		case percentage > 0:
			a.Resource, a.Share.MilliGPU = s.percentage, 10*min(max(percentage, cores), 1000)
		case cores > 0:
			a.Resource, a.Share.MilliGPU = s.cores, 1000
		default:
			a.Resource, a.Share.MilliGPU = s.number, 1000
		}
		for _, name := range []string{s.number, s.memory, s.percentage, s.cores} {
			delete(want, name)
		}
		out = append(out, a)
	}
	return out
}

// unreadable is the size of a share that a pod asks for in a way that cannot be
// read: it fits nowhere. Check says why.
func unreadable() sharing.ShareSize { return sharing.ShareSize{MilliGPU: -1} }

// kaiAsk reads KAI's annotations: what they ask for and for which container. ok
// is false where a pod has none. An empty value is as good as none.
//
// Source: docs of KAI-Scheduler 0.17, GPU sharing.
func kaiAsk(pod *v1.Pod) (a sharing.Ask, container string, ok bool) {
	fraction, memory := pod.Annotations[api.AnnotationKAIFraction], pod.Annotations[api.AnnotationKAIMemory]
	if fraction == "" && memory == "" {
		return a, "", false
	}
	a = sharing.Ask{Resource: api.AnnotationKAIFraction, Count: 1, Share: unreadable()}
	if fraction == "" {
		a.Resource = api.AnnotationKAIMemory
	}
	n, countOK := kaiDevices(pod)
	container, there := kaiContainer(pod)
	size, sizeOK := kaiSize(fraction, memory)
	if countOK && there && sizeOK {
		a.Count, a.Share = n, size
	}
	return a, container, true
}

// The forms of numbers that KAI's annotations may have, as regular expressions:
// of a part of a GPU, and of all else.
const (
	DecimalForm = "^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]{1,2})?$"
	WholeForm   = "^[0-9]{1,15}$"
)

var decimalForm, wholeForm = regexp.MustCompile(DecimalForm), regexp.MustCompile(WholeForm)

// wholeNumber reads a number of WholeForm that is not 0.
func wholeNumber(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n > 0 && wholeForm.MatchString(text)
}

// kaiSize reads the size of a share: a part of a GPU above 0 and up to 1, cut to
// a thousandth but at least one, or memory in MiB.
func kaiSize(fraction, memory string) (sharing.ShareSize, bool) {
	switch {
	case fraction != "" && memory != "":
		return sharing.ShareSize{}, false
	case fraction != "":
		part, err := strconv.ParseFloat(fraction, 64)
		if err != nil || !(part > 0 && part <= 1) || !decimalForm.MatchString(fraction) {
			return sharing.ShareSize{}, false
		}
		return sharing.ShareSize{MilliGPU: max(1, int64(math.Floor(part*1000+1e-6)))}, true
	}
	mib, ok := wholeNumber(memory)
	return sharing.ShareSize{MemoryMiB: mib}, ok
}

// kaiDevices reads of how many GPUs a pod wants its share.
func kaiDevices(pod *v1.Pod) (int64, bool) {
	text, ok := pod.Annotations[api.AnnotationKAIDevices]
	if !ok {
		return 1, true
	}
	return wholeNumber(text)
}

// kaiContainer names the container that gets the share, and says whether it is
// there; if not, the first stands for it.
func kaiContainer(pod *v1.Pod) (string, bool) {
	first := ""
	if len(pod.Spec.Containers) > 0 {
		first = pod.Spec.Containers[0].Name
	}
	name, ok := pod.Annotations[api.AnnotationKAIContainer]
	if !ok {
		return first, true
	}
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return name, true
			}
		}
	}
	return first, false
}
