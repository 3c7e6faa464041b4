package serving

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Place is where a model is, as storageUri says it.
type Place struct {
	URI    string // as it is written; "" is that there is none
	Scheme string // one of Schemes
	// Host is the claim of pvc, the bucket of s3 and gs, the repository OWNER/NAME of hf, and the host of the others, with its port.
	Host     string
	Path     string // below Host, without slashes at its ends; of oci and http it is empty, as URI says it
	Revision string // of hf: a branch, a tag, or a commit; "" is the repository's main branch
}

// Schemes are the beginnings of places that are served, without "://".
func Schemes() []string {
	return []string{"pvc", "s3", "gs", "hf", "https", "http", "oci", "hdfs", "webhdfs"}
}

// PlaceOf reads the place of a model. Hugging Face's revision follows a colon, as with KServe, or an @.
func PlaceOf(uri string) (Place, *Fault) {
	p := Place{URI: uri}
	if uri == "" {
		return p, nil
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return p, wrongPlace("storageUri %q has no scheme; write pvc://CLAIM/PATH, or one of s3, gs, hf, https", uri)
	}
	if p.Scheme = scheme; !known(scheme) {
		if near := gpu.NearestWord(scheme, Schemes()); near != "" {
			return p, wrongPlace("storageUri: %s:// is not known; did you mean %s://?", scheme, near)
		}
		return p, wrongPlace("storageUri: %s:// is not served; use pvc, s3, gs, hf, https, or oci", scheme)
	}
	if strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return p, wrongPlace("storageUri %q has a space or a control character; remove it, or write a space as %%20", uri)
	}
	var path string
	p.Host, path, _ = strings.Cut(rest, "/")
	switch scheme {
	case "pvc", "s3", "gs":
		p.Path = strings.Trim(path, "/")
	case "hf":
		return p.repository(rest)
	}
	if p.Host == "" {
		names := map[string]string{"pvc": "volume; write pvc://CLAIM/PATH", "s3": "bucket; write s3://BUCKET/PATH", "gs": "bucket; write gs://BUCKET/PATH", "oci": "image; write oci://IMAGE:TAG"}
		if name := names[scheme]; name != "" {
			return p, wrongPlace("storageUri %q names no %s", uri, name)
		}
		return p, wrongPlace("storageUri %q names no host; write %s://HOST/PATH", uri, scheme)
	}
	if scheme == "pvc" && leadsOut(p.Path) {
		return p, wrongPlace("storageUri %q leads out of the volume; write a path without ..", uri)
	}
	return p, nil
}

// repository reads OWNER/NAME, with a revision.
func (p Place) repository(rest string) (Place, *Fault) {
	rest = strings.Trim(rest, "/")
	if i := strings.IndexAny(rest, ":@"); i >= 0 {
		if rest, p.Revision = rest[:i], rest[i+1:]; p.Revision == "" {
			return p, wrongPlace("storageUri %q names no revision after the repository; write hf://OWNER/NAME:REVISION, or hf://OWNER/NAME", p.URI)
		}
	}
	owner, name, _ := strings.Cut(rest, "/")
	if owner == "" || name == "" || strings.Contains(name, "/") || leadsOut(rest) || strings.ContainsAny(rest, "?#%\\") {
		return p, wrongPlace("storageUri %q is not a repository of Hugging Face; write hf://OWNER/NAME, or hf://OWNER/NAME:REVISION", p.URI)
	}
	p.Host = rest
	return p, nil
}

func known(scheme string) bool { return slices.Contains(Schemes(), scheme) }

// leadsOut reports whether a path has a part that is "..".
func leadsOut(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

func wrongPlace(format string, args ...any) *Fault {
	return &Fault{FaultSpec, fmt.Sprintf(format, args...)}
}
