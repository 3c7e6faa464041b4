package explain

import (
	"fmt"
	"strconv"
	"strings"
)

// ImageRemark says what is wrong with an image's name before anybody waits for it:
// one without a version may be another at the next start, and see TagRemark. "" is
// nothing.
func ImageRemark(image string) string {
	if strings.Contains(image, "@sha256:") {
		return ""
	}
	tag := tagOf(image)
	switch tag {
	case "":
		return "image " + image + " has no tag, so that it is what is newest when it starts; name a version"
	case "latest":
		return "image " + image + " is whatever is newest when it starts; name a version instead of latest"
	}
	if remark := TagRemark(image); remark != "" {
		return "image " + image + " may not be there: " + remark
	}
	return ""
}

// TagRemark says that the tag of an image lacks a part that all tags of its
// repository have, so that it is likely not there; "" is that nothing is known
// against it. Nothing is asked of a registry: it goes by the form alone.
//
// Source: the tags of pytorch/pytorch at Docker Hub, VERSION-cudaX-cudnnY-runtime
// and -devel; only those from before 2018 name CUDA in another form.
func TagRemark(image string) string {
	if strings.Contains(image, "@") {
		return ""
	}
	tag := tagOf(image)
	repository := strings.TrimSuffix(image, ":"+tag)
	for _, registry := range []string{"docker.io/", "index.docker.io/", "registry-1.docker.io/"} {
		repository = strings.TrimPrefix(repository, registry)
	}
	if repository != "pytorch/pytorch" || !strings.Contains(tag, "-cuda") || strings.HasSuffix(tag, "-runtime") || strings.HasSuffix(tag, "-devel") {
		return ""
	}
	return "tags of pytorch/pytorch end in -runtime or -devel, and " + tag + " does not (by its form; unverified)"
}

// tagOf is what follows the last colon of an image's name, after its last slash.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndexByte(image, '/')+1:]
	_, tag, _ := strings.Cut(name, ":")
	return tag
}

// CUDA is a version of CUDA, as drivers and images name it. The zero CUDA is
// unknown.
type CUDA struct{ Major, Minor int }

// String returns the version as "12.4".
func (c CUDA) String() string { return fmt.Sprintf("%d.%d", c.Major, c.Minor) }

// Newer says whether c is newer than d; unknown is never newer, nor is anything
// newer than unknown.
func (c CUDA) Newer(d CUDA) bool {
	return c.Major > 0 && d.Major > 0 && (c.Major > d.Major || c.Major == d.Major && c.Minor > d.Minor)
}

// ParseCUDA reads "12.4", "12.4.1" or "12"; anything else is unknown.
func ParseCUDA(s string) CUDA {
	major, rest, _ := strings.Cut(s, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	if err != nil || a < 1 || a > 99 {
		return CUDA{}
	}
	b := 0
	if minor != "" {
		if b, err = strconv.Atoi(minor); err != nil || b < 0 || b > 99 {
			return CUDA{}
		}
	}
	return CUDA{a, b}
}

// RequiredCUDA is the CUDA that an image needs of the driver, and what says so:
// the value of the environment variable NVIDIA_REQUIRE_CUDA ("cuda>=12.4
// driver>=..."; its parts are alternatives between spaces and must all hold
// between commas), else the image's tag or name, as NVIDIA, PyTorch and others
// write them: cuda12.4, cuda-12.4, cu124, or 12.4.1-cudnn-devel of an image
// called cuda.
func RequiredCUDA(require, image string) (CUDA, string) {
	var least CUDA
	for _, term := range strings.FieldsFunc(require, func(r rune) bool { return r == ' ' || r == ',' }) {
		if version, ok := strings.CutPrefix(term, "cuda>="); ok {
			if c := ParseCUDA(version); c.Major > 0 && (least.Major == 0 || least.Newer(c)) {
				least = c
			}
		}
	}
	if least.Major > 0 {
		return least, "NVIDIA_REQUIRE_CUDA"
	}
	tag := tagOf(image)
	name, _, _ := strings.Cut(image, "@")
	name = strings.TrimSuffix(name, ":"+tag)
	name = name[strings.LastIndexByte(name, '/')+1:]
	for _, word := range append(words(tag), words(name)...) {
		if c := cudaWord(word); c.Major > 0 {
			return c, "its tag"
		}
	}
	if list := words(tag); name == "cuda" && len(list) > 0 {
		return ParseCUDA(list[0]), "its tag"
	}
	return CUDA{}, ""
}

// words divides a tag, and joins "cuda-12.4" and "cuda_12.4" to one word.
func words(tag string) []string {
	list := strings.FieldsFunc(strings.ToLower(tag), func(r rune) bool { return r == '-' || r == '_' || r == '+' })
	for i := 0; i+1 < len(list); i++ {
		if list[i] == "cuda" {
			list[i] += list[i+1]
		}
	}
	return list
}

// cudaWord reads cuda12.4, cuda12, cu124 or cu12.
func cudaWord(word string) CUDA {
	if version, ok := strings.CutPrefix(word, "cuda"); ok {
		return ParseCUDA(version)
	}
	digits, ok := strings.CutPrefix(word, "cu")
	if !ok || len(digits) < 2 || len(digits) > 3 {
		return CUDA{}
	}
	if _, err := strconv.Atoi(digits); err != nil {
		return CUDA{}
	}
	return ParseCUDA(digits[:2] + "." + digits[2:])
}

// CUDARemark says that an image needs a newer CUDA than the drivers of nodes give:
// newest of those that it may use. "" is that it does not, or that it is unknown.
func CUDARemark(image string, need CUDA, from string, newest CUDA) string {
	if !need.Newer(newest) {
		return ""
	}
	return fmt.Sprintf("image %s needs CUDA %s (says %s), and the newest driver of the nodes that it may use gives %s; choose an image for CUDA %s or older, or update the driver",
		image, need, from, newest, newest)
}
