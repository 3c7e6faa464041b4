package view

import "strings"

// ImageName is the last part of an image's name, without tag and digest:
// "dcgm-exporter" of "nvcr.io/nvidia/k8s/dcgm-exporter:4.1.1@sha256:...". A registry
// may have a port.
func ImageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	image, _, _ = strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	return image
}
