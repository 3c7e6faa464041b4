package fleet

import (
	"archive/tar"
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/fetch"
)

func TestOnlyModelsOnThisMachineAreReallyRead(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		env       map[string]string
		want      bool
	}{
		{"a server of this machine", "http://127.0.0.1:8000/m.tar", nil, true},
		{"one by its name", "http://localhost/m.tar", nil, true},
		{"one with IPv6", "http://[::1]:80/m.tar", nil, true},
		{"another machine", "https://example.com/m.tar", nil, false},
		{"a name that looks like this machine", "http://127.0.0.1.example.com/m.tar", nil, false},
		{"S3 itself", "s3://bucket/m", nil, false},
		{"an S3 of this machine", "s3://bucket/m", map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}, true},
		{"an S3 of another machine", "s3://bucket/m", map[string]string{"AWS_ENDPOINT_URL": "http://minio.example.com"}, false},
		{"a Hugging Face of this machine", "hf://a/b", map[string]string{"HF_ENDPOINT": "http://127.0.0.1:9000"}, true},
		{"a Google Cloud Storage of this machine", "gs://a/b", map[string]string{"STORAGE_EMULATOR_HOST": "localhost:4443"}, true},
		{"HDFS", "hdfs://127.0.0.1/m", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := onLoopback(tt.src, tt.env); got != tt.want {
				t.Errorf("really read: %v", got)
			}
		})
	}
}

func TestARedirectToAnotherMachineIsNotFollowed(t *testing.T) {
	s := httptest.NewServer(http.RedirectHandler("http://192.0.2.1/m.tar", http.StatusFound))
	defer s.Close()
	o := fetch.Options{Transport: loopbackTransport(), Pause: func(ctx context.Context, _ time.Duration) bool { return ctx.Err() == nil }}
	_, err := fetch.Fetch(t.Context(), s.URL+"/m.tar", t.TempDir(), o)
	if err == nil || !strings.Contains(err.Error(), errBeyond.Error()) {
		t.Errorf("it says %v", err)
	}
}

// TestTheMessageOfADownloadSaysWhatThereIs has what a server finds of a model that was downloaded, which after a restart of the fleet is
// known from the pod's status alone.
func TestTheMessageOfADownloadSaysWhatThereIs(t *testing.T) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: "1/saved_model.pb", Mode: 0o600, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/m.tar" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(out.Bytes())
	}))
	defer s.Close()
	for _, tt := range []struct {
		name, src string
		code      int32
		files     []string
		known     bool
		says      string
	}{
		{"a model of this machine", s.URL + "/m.tar", 0, []string{"1/saved_model.pb"}, true, "downloaded 1 files, 0 bytes, from "},
		{"a model that is not there", s.URL + "/n.tar", 1, nil, false, "the server says 404 Not Found"},
		{"a model of another machine", "https://example.com/m.tar", 0, nil, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := fetching(tt.src)
			f := &Fleet{models: t.TempDir()}
			code, words := f.downloadModel(t.Context(), &download{}, tt.src, api, "storage-initializer")
			if code != tt.code || !strings.Contains(words, tt.says) {
				t.Errorf("it ends with %d and %q", code, words)
			}
			p := newPod(&node{fleet: f}, api, time.Now())
			p.containers[0].state = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Message: words}}
			files, known := p.modelFiles()
			if diff := cmp.Diff(tt.files, files); diff != "" || known != tt.known {
				t.Errorf("known %v: %s", known, diff)
			}
			if left, _ := os.ReadDir(f.modelFolder(api)); tt.code == 0 && len(left) > 0 {
				t.Errorf("files stay: %v", left)
			}
		})
	}
}

func TestAMessageIsCutAtALine(t *testing.T) {
	got := message(strings.Repeat("0123456789\n", 500))
	if len(got) > mostMessage || !strings.HasSuffix(got, "9") {
		t.Errorf("the message has %d bytes and ends with %q", len(got), got[len(got)-5:])
	}
}

// fetching is a pod of an InferenceService that downloads its model.
func fetching(src string) *v1.Pod {
	pod := predictor("tensorflow/serving:2", "", "tensorflow_model_server")
	pod.UID, pod.Labels = "u", map[string]string{api.LabelInferenceService: "mnist"}
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	pod.Spec.InitContainers = []v1.Container{{Name: "storage-initializer", Image: "i", Args: []string{src, "/mnt/models"}}}
	return pod
}
