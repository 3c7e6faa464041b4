package train

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/term"
)

// codePath is where the files of --code are mounted.
const codePath = "/code"

// mostCode is the most bytes that a ConfigMap holds (MaxSecretSize of Kubernetes' validation).
const mostCode = 1 << 20

// code is the files of a folder: their paths below it, with slashes, in order, and their content.
type code struct {
	paths []string
	files map[string][]byte
}

// readCode reads the regular files below a folder, without those whose names begin with a dot and without
// __pycache__. It stops where they are more than a ConfigMap holds.
func readCode(dir string) (*code, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, term.Usagef("--code %s: %w", dir, bare(err))
	}
	defer root.Close()
	out := &code{files: map[string][]byte{}}
	total := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case name != "." && (strings.HasPrefix(base, ".") || base == "__pycache__") && d.IsDir():
			return fs.SkipDir
		case strings.HasPrefix(base, ".") || !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		total += len(keyOf(name))
		if total+int(min(info.Size(), mostCode+1)) > mostCode {
			return tooLarge(dir)
		}
		raw, err := fs.ReadFile(root.FS(), name)
		if err != nil {
			return err
		}
		if total += len(raw); total > mostCode {
			return tooLarge(dir)
		}
		if _, taken := out.files[name]; !taken {
			out.paths = append(out.paths, name)
		}
		out.files[name] = raw
		return nil
	})
	switch usage := (*term.UsageError)(nil); {
	case errors.As(err, &usage):
		return nil, err
	case err != nil:
		return nil, term.Usagef("--code %s: %w", dir, bare(err))
	case len(out.paths) == 0:
		return nil, term.Usagef("--code %s: the folder has no files, beside those whose names begin with a dot", dir)
	}
	return out, out.clash(dir)
}

// tooLarge says that files do not fit, and what to use instead.
func tooLarge(dir string) error {
	return term.Usagef("--code %s: its files are more than 1 MiB, the most that a ConfigMap holds; build them into the image, or copy them to a volume and mount that with --volume CLAIM:PATH", filepath.ToSlash(dir))
}

// bare is an error without the path that the caller names.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) && (p.Path == "." || filepath.IsAbs(p.Path)) {
		return p.Err
	}
	return err
}

// keyOf is the key of a file in the ConfigMap: keys have no slashes, and only letters, digits, '-', '_', and '.'.
func keyOf(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		case r == '/':
			return '.'
		}
		return '_'
	}, name)
}

// clash refuses two files whose keys are the same.
func (c *code) clash(dir string) error {
	by := map[string]string{}
	for _, name := range c.paths {
		if other, taken := by[keyOf(name)]; taken {
			return term.Usagef("--code %s: %s and %s would both be %s in the ConfigMap; rename one", dir, other, name, keyOf(name))
		}
		by[keyOf(name)] = name
	}
	return nil
}

// configMap makes the ConfigMap of the files for a job.
func (c *code) configMap(namespace, job string) *v1.ConfigMap {
	out := &v1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: job + "-code", Labels: map[string]string{kubeflow.LabelJobName: job}},
	}
	for _, name := range c.paths {
		raw := c.files[name]
		if utf8.Valid(raw) {
			if out.Data == nil {
				out.Data = map[string]string{}
			}
			out.Data[keyOf(name)] = string(raw)
			continue
		}
		if out.BinaryData == nil {
			out.BinaryData = map[string][]byte{}
		}
		out.BinaryData[keyOf(name)] = raw
	}
	return out
}

// mount mounts the ConfigMap in every container, with the folders that the files have.
func (c *code) mount(spec *v1.PodSpec, configMap string) {
	source := &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: configMap}}
	for _, name := range c.paths {
		source.Items = append(source.Items, v1.KeyToPath{Key: keyOf(name), Path: name})
	}
	if slices.Equal(c.paths, keysOf(c.paths)) {
		source.Items = nil // the keys are the paths
	}
	spec.Volumes = append(spec.Volumes, v1.Volume{Name: "code", VolumeSource: v1.VolumeSource{ConfigMap: source}})
	for i := range spec.Containers {
		spec.Containers[i].VolumeMounts = append(spec.Containers[i].VolumeMounts, v1.VolumeMount{Name: "code", MountPath: codePath, ReadOnly: true})
	}
}

func keysOf(paths []string) []string {
	out := make([]string, len(paths))
	for i, name := range paths {
		out[i] = keyOf(name)
	}
	return out
}
