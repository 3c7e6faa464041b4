package profile

import (
	"slices"
	"strings"
)

// gpuWarnings says what may keep a notebook with GPUs from using them.
func (m *maker) gpuWarnings() {
	if m.gpus() == 0 {
		return
	}
	if says, ok := m.capable(); !ok {
		m.warn(CodeCapabilities, Doubt, "environment", driverCapabilities, "%s is %q, without compute: CUDA finds no GPU; write compute,utility", driverCapabilities, says)
	}
	if why := CPUImage(m.pod.Containers[0].Image); why != "" {
		m.warn(CodeCPUImage, Doubt, "image", "", "%s", why)
	}
}

// cpuImages are repositories of images that are built without CUDA, as their
// projects describe them. Tags with cuda or gpu in them are other builds.
var cpuImages = []string{
	"jupyter/base-notebook", "jupyter/minimal-notebook", "jupyter/scipy-notebook", "jupyter/r-notebook", "jupyter/julia-notebook",
	"jupyter/datascience-notebook", "jupyter/tensorflow-notebook", "jupyter/pytorch-notebook", "jupyter/pyspark-notebook",
	"jupyter/all-spark-notebook", "jupyterhub/k8s-singleuser-sample", "pangeo/base-notebook", "pangeo/pangeo-notebook",
	"rocker/binder", "rocker/rstudio", "rocker/verse", "rocker/geospatial",
}

// CPUImage says in a sentence that an image seems to have no CUDA, by its name
// alone; "" is that nothing speaks for it. Nothing is pulled, so it is unverified.
func CPUImage(image string) string {
	name, _, _ := strings.Cut(image, "@")
	i := strings.LastIndex(name, "/")
	repository, tag := name, ""
	if j := strings.LastIndex(name, ":"); j > i {
		repository, tag = name[:j], name[j+1:]
	}
	if registry, rest, ok := strings.Cut(repository, "/"); ok && strings.ContainsAny(registry, ".:") {
		repository = rest
	}
	repository = strings.TrimPrefix(repository, "library/")
	if !slices.Contains(cpuImages, repository) || strings.Contains(tag, "cuda") || strings.Contains(tag, "gpu") {
		return ""
	}
	return "image " + image + " seems to be built without CUDA (by its name; unverified): its programs would not see the GPU"
}
