//go:build linux

package node_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"time"
)

// The images. All are the same program; the last is made like NVIDIA's CUDA
// images, which ask for every GPU.
const (
	pauseImage = "localhost/pause:dev"
	appImage   = "localhost/gpuapp:dev"
	allImage   = "localhost/gpuapp-all:dev"
)

// digest names a blob of an OCI layout.
func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// descriptor points to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// layout is an OCI image layout that is being written.
// Source: github.com/opencontainers/image-spec, image-layout.md and manifest.md.
type layout struct {
	tar     *tar.Writer
	written map[string]bool
}

// writeImages writes an archive that holds the images, of one static program.
func writeImages(path, program string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	rootfs, err := layer(map[string][]byte{"gpuapp": binary})
	if err != nil {
		return err
	}
	return writeArchive(path,
		image{name: pauseImage, rootfs: rootfs, entrypoint: []string{"/gpuapp"}, env: []string{"PATH=/"}},
		image{name: appImage, rootfs: rootfs, entrypoint: []string{"/gpuapp"}, env: []string{"PATH=/"}},
		image{name: allImage, rootfs: rootfs, entrypoint: []string{"/gpuapp"}, env: []string{"PATH=/", "NVIDIA_VISIBLE_DEVICES=all"}},
	)
}

// image is one image of an archive.
type image struct {
	name       string
	rootfs     []byte // its only layer
	entrypoint []string
	env        []string
	user       string // "" is root
}

// writeArchive writes an archive of images for containerd to import.
func writeArchive(path string, images ...image) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	l := &layout{tar: tar.NewWriter(f), written: map[string]bool{}}
	var index []descriptor
	for _, i := range images {
		d, err := l.image(i)
		if err != nil {
			return err
		}
		d.Annotations = map[string]string{"io.containerd.image.name": i.name}
		index = append(index, d)
	}
	if err := l.document("index.json", map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": index}); err != nil {
		return err
	}
	if err := l.document("oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}); err != nil {
		return err
	}
	return l.tar.Close()
}

// layer is a root folder with files by path, as a tar archive. All of them may be
// run, and the folders that they lie in are made where they are needed.
func layer(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, dir := range []string{"dev/", "proc/", "sys/", "etc/", "tmp/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return nil, err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o755, Size: int64(len(files[path]))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[path]); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

// image writes one image and gives its manifest's descriptor.
func (l *layout) image(i image) (descriptor, error) {
	rootfs := i.rootfs
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": i.entrypoint, "Env": i.env, "User": i.user},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(rootfs)}},
	})
	if err != nil {
		return descriptor{}, err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": descriptor{MediaType: "application/vnd.oci.image.config.v1+json", Digest: digest(config), Size: len(config)},
		"layers": []descriptor{{MediaType: "application/vnd.oci.image.layer.v1.tar", Digest: digest(rootfs), Size: len(rootfs)}},
	})
	if err != nil {
		return descriptor{}, err
	}
	for _, blob := range [][]byte{rootfs, config, manifest} {
		if err := l.file("blobs/sha256/"+digest(blob)[len("sha256:"):], blob); err != nil {
			return descriptor{}, err
		}
	}
	return descriptor{MediaType: "application/vnd.oci.image.manifest.v1+json", Digest: digest(manifest), Size: len(manifest)}, nil
}

// document writes a value as JSON.
func (l *layout) document(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.file(name, data)
}

// file writes one file once.
func (l *layout) file(name string, data []byte) error {
	if l.written[name] {
		return nil
	}
	l.written[name] = true
	if err := l.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	_, err := l.tar.Write(data)
	return err
}
