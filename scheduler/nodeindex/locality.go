package nodeindex

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
)

// What it is worth, in milli-GPUs, that a node has what a pod reads. Data that a
// user names outweighs most of what packing can gain, but not what the user
// prefers by affinity; an image decides between places that are nearly as good.
const (
	bonusDatasets = 16_000 // for all that the pod names
	bonusImages   = 50     // for all images of the pod, of largeImage each
)

// largeImage is the size from which on an image counts in full.
const largeImage = 4 << 30

// datasets reads a list of names: of data that a pod reads, or a node has.
func datasets(list string) []string {
	var out []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// hasDatasets is the part, in thousandths, of what a pod reads that a node has.
// A node says so in an annotation, or, where it is one, in a label.
func hasDatasets(n *v1.Node, wanted []string) int32 {
	if len(wanted) == 0 {
		return 0
	}
	there := append(datasets(n.Annotations[api.AnnotationDatasets]), datasets(n.Labels[api.AnnotationDatasets])...)
	has := 0
	for _, name := range wanted {
		if slices.Contains(there, name) {
			has++
		}
	}
	return int32(1000 * has / len(wanted))
}

// images lists the images of a pod's containers as nodes report them, sorted.
func images(pod *v1.Pod) []string {
	var out []string
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if name := tagged(list[i].Image); !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// tagged is an image's name with its tag, as container runtimes write it.
func tagged(image string) string {
	if strings.LastIndex(image, ":") <= strings.LastIndex(image, "/") {
		return image + ":latest"
	}
	return image
}

// hasImages is the part, in thousandths, of images that a node has, small ones
// counted for less.
func hasImages(n *v1.Node, wanted []string) int32 {
	if len(wanted) == 0 {
		return 0
	}
	sum := int64(0)
	for i := range n.Status.Images {
		for _, name := range n.Status.Images[i].Names {
			if slices.Contains(wanted, name) {
				sum += 1000 * min(n.Status.Images[i].SizeBytes, largeImage) / largeImage
				break
			}
		}
	}
	return int32(sum / int64(len(wanted)))
}

// imageCount is how many nodes have an image, by its name.
type imageCount map[string]int

// telling returns those of a pod's images that some of so many nodes have and others
// do not.
func (c imageCount) telling(pod *v1.Pod, nodes int) []string {
	if len(c) == 0 {
		return nil
	}
	return slices.DeleteFunc(images(pod), func(name string) bool { return c[name] == 0 || c[name] == nodes })
}

// count adds by for each image that a node has.
func (c imageCount) count(n *v1.Node, by int) {
	for i := range n.Status.Images {
		for _, name := range n.Status.Images[i].Names {
			if c[name] += by; c[name] == 0 {
				delete(c, name)
			}
		}
	}
}

// sameImages says whether two versions of a node report the same images.
func sameImages(a, b *v1.Node) bool {
	return slices.EqualFunc(a.Status.Images, b.Status.Images, func(x, y v1.ContainerImage) bool {
		return x.SizeBytes == y.SizeBytes && slices.Equal(x.Names, y.Names)
	})
}
