package serving_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api/kserve"
	rules "berth.dev/berth/core/serving"
	"berth.dev/berth/kube/serving"
)

// service reads an InferenceService called mnist-model in ml-training.
func service(t *testing.T, text string) *kserve.InferenceService {
	t.Helper()
	o := &kserve.InferenceService{}
	if err := yaml.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	o.Namespace, o.UID = "ml-training", "u"
	if o.Name == "" {
		o.Name = "mnist-model"
	}
	return o
}

// builtin are the runtimes that Berth brings.
func builtin(t *testing.T) (out []*serving.Runtime) {
	t.Helper()
	files, err := filepath.Glob("../../controller/crd/servingruntimes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var r struct {
			Metadata metav1.ObjectMeta    `json:"metadata"`
			Spec     runtime.RawExtension `json:"spec"`
		}
		if err := yaml.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		read, err := serving.RuntimeOf(&r.Metadata, r.Spec, true)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, read)
	}
	return out
}

// children are the objects of a service, or why there are none.
func children(t *testing.T, text string) (*serving.Children, string) {
	t.Helper()
	w, fault := serving.Of(service(t, text))
	if fault != nil {
		return nil, fault.Message
	}
	r, fault := serving.Choose(w, builtin(t))
	if fault != nil {
		return nil, fault.Message
	}
	c, err := serving.Build(w, r, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c, ""
}

// TestTheSeedsService has the InferenceService of the lab's fourth part. Names, labels, ports, and arguments are those of KServe's Standard mode
// (predictor.go, deployment_reconciler.go, service_reconciler.go, storage_initializer_injector.go), by their facts; the Service
// mnist-model is Berth's.
func TestTheSeedsService(t *testing.T) {
	c, why := children(t, `
spec:
  predictor:
    tensorflow:
      storageUri: pvc://model-storage/
      resources: {limits: {nvidia.com/gpu: 1}}
`)
	if c == nil {
		t.Fatal(why)
	}
	all := []any{c.Deployment}
	for _, s := range c.Services {
		all = append(all, s)
	}
	var texts []string
	for _, o := range all {
		raw, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(raw))
	}
	got := strings.ReplaceAll(strings.Join(texts, "---\n"), c.Revision, "REVISION")
	want, err := os.ReadFile("testdata/mnist-model.yaml")
	if err != nil && os.Getenv("UPDATE") == "" {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile("testdata/mnist-model.yaml", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the children are others (-want +got):\n%s", diff)
	}
}

// Users of KServe had to change Knative's settings beside the service to see it without replicas (kserve#898).
func TestMinReplicasIsAllThatZeroTakes(t *testing.T) {
	text, err := os.ReadFile("../../docs/examples/scale-to-zero.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w, fault := serving.Of(service(t, string(text)))
	if fault != nil {
		t.Fatal(fault.Message)
	}
	if after, may := w.Service.Scale.ToZero(); !may || after != rules.DefaultIdleAfter {
		t.Errorf("the example has no replicas after %s: %v, by %+v", after, may, w.Service.Scale)
	}
	if w, _ := serving.Of(service(t, strings.ReplaceAll(string(text), "minReplicas: 0", "minReplicas: 1"))); w.Service.Scale.Min != 1 {
		t.Error("one replica is none")
	} else if _, may := w.Service.Scale.ToZero(); may {
		t.Error("a service with one replica may have none")
	}
}

func TestByWhatReplicasAreCounted(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		metric     rules.Metric
		target     float64
	}{
		{"requests at once", "{}", rules.ByConcurrency, 10},
		{"requests at once, by the bound of a replica", "{containerConcurrency: 4}", rules.ByConcurrency, 4},
		{"requests a second", "{scaleMetric: rps, containerConcurrency: 4}", rules.ByRate, 10},
		{"the time of GPUs", "{scaleMetric: gpu-utilization}", rules.ByUtilization, 70},
		{"the time of GPUs, as it is said", "{scaleMetric: gpu-utilization, scaleTarget: 50}", rules.ByUtilization, 50},
		{"the queue of the server", "{scaleMetric: queue-depth, containerConcurrency: 32}", rules.ByQueue, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, fault := serving.Of(service(t, "spec: {predictor: "+strings.Replace(tt.text, "{", "{sklearn: {}, ", 1)+"}"))
			if fault != nil {
				t.Fatal(fault.Message)
			}
			if s := w.Service.Scale; s.Metric != tt.metric || s.Target != tt.target {
				t.Errorf("by %s at %g, want %s at %g", s.Metric, s.Target, tt.metric, tt.target)
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, text, says string }{
		{"Knative mode", "metadata: {annotations: {serving.kserve.io/deploymentMode: Serverless}}\nspec: {predictor: {sklearn: {}}}", "deploymentMode Serverless is not served"},
		{"ModelMesh", "metadata: {annotations: {serving.kserve.io/deploymentMode: ModelMesh}}\nspec: {predictor: {sklearn: {}}}", "deploymentMode ModelMesh is not served"},
		{"an explainer", "spec: {predictor: {sklearn: {}}, explainer: {}}", "spec.explainer is not served"},
		{"a transformer without containers", "spec: {predictor: {sklearn: {}}, transformer: {containers: []}}", "spec.transformer has no containers; add one with an image"},
		{"a transformer without an image", "spec: {predictor: {sklearn: {}}, transformer: {containers: [{name: a}]}}", "spec.transformer.containers: a container has no image"},
		{"a word for a transformer", "spec: {predictor: {sklearn: {}}, transformer: feast}", "spec.transformer must be an object"},
		{"a transformer with a share", "spec: {predictor: {sklearn: {}}, transformer: {canaryTrafficPercent: 10, containers: [{image: a}]}}", "spec.transformer.canaryTrafficPercent is not served; write it in spec.predictor"},
		{"a transformer that scales by itself", "spec: {predictor: {sklearn: {}}, transformer: {scaleMetric: rps, containers: [{image: a}]}}", "spec.transformer.scaleMetric is not served; remove it: there are as many replicas as of the predictor"},
		{"a transformer with a model", "spec: {predictor: {sklearn: {}}, transformer: {containers: [{image: a, env: [{name: STORAGE_URI, value: 's3://a'}]}]}}", "spec.transformer: STORAGE_URI is not served"},
		{"fewer transformers than none", "spec: {predictor: {sklearn: {}}, transformer: {minReplicas: -1, containers: [{image: a}]}}", "spec.transformer.minReplicas: -1 is less than 0"},
		{"a transformer's maximum below its minimum", "spec: {predictor: {sklearn: {}}, transformer: {minReplicas: 3, maxReplicas: 2, containers: [{image: a}]}}", "spec.transformer.maxReplicas: 2 is less than minReplicas, 3"},
		{"several nodes", "spec: {predictor: {sklearn: {}, workerSpec: {}}}", "spec.predictor.workerSpec is not served"},
		{"a logger", "spec: {predictor: {sklearn: {}, logger: {url: x}}}", "spec.predictor.logger is not served"},
		{"a share above 100", "spec: {predictor: {sklearn: {}, canaryTrafficPercent: 110}}", "spec.predictor.canaryTrafficPercent: 110 is not a share; write a whole number from 0 to 100"},
		{"a word for a share", "spec: {predictor: {sklearn: {}, canaryTrafficPercent: 'x'}}", "canaryTrafficPercent: x is not a share"},
		{"limits of a canary that are none", "metadata: {annotations: {berth.dev/canary-limits: errors}}\nspec: {predictor: {sklearn: {}}}", "annotation berth.dev/canary-limits: \"errors\" is not a limit"},
		{"scaling by CPU", "spec: {predictor: {sklearn: {}, scaleMetric: cpu}}", "scaleMetric cpu is not served; use concurrency, rps, gpu-utilization or queue-depth"},
		{"a misspelled metric", "spec: {predictor: {sklearn: {}, scaleMetric: queue-dept}}", "scaleMetric queue-dept is not served; did you mean queue-depth?"},
		{"a misspelled metric of an annotation", "metadata: {annotations: {serving.kserve.io/metric: gpu-utilizaton}}\nspec: {predictor: {sklearn: {}}}", "did you mean gpu-utilization?"},
		{"a word for a bound", "spec: {predictor: {sklearn: {}, containerConcurrency: few}}", "containerConcurrency: few is not a number of requests"},
		{"a bound below zero", "spec: {predictor: {sklearn: {}, containerConcurrency: -1}}", "containerConcurrency: -1 is not a number of requests"},
		{"no model", "spec: {predictor: {}}", "has no model; add model"},
		{"a misspelled framework", "spec: {predictor: {sklern: {}}}", "did you mean sklearn by sklern?"},
		{"two models", "spec: {predictor: {sklearn: {}, xgboost: {}}}", "has sklearn and xgboost; keep one"},
		{"an unknown format", "spec: {predictor: {model: {modelFormat: {name: tensorflw}}}}", "did you mean tensorflow?"},
		{"no format", "spec: {predictor: {model: {}}}", "modelFormat.name is missing"},
		{"an unknown runtime", "spec: {predictor: {model: {modelFormat: {name: onnx}, runtime: kserve-tritonsrver}}}", "did you mean kserve-tritonserver?"},
		{"a misspelled scheme", "spec: {predictor: {sklearn: {storageUri: 'pcv://a/b'}}}", "did you mean pvc://?"},
		{"a path out of the volume", "spec: {predictor: {sklearn: {storageUri: 'pvc://a/../b'}}}", "leads out of the volume"},
		{"no bucket", "spec: {predictor: {sklearn: {storageUri: 's3:///b'}}}", "names no bucket; write s3://BUCKET/PATH"},
		{"half a repository", "spec: {predictor: {sklearn: {storageUri: 'hf://bert'}}}", "is not a repository of Hugging Face; write hf://OWNER/NAME"},
		{"a scheme of another cloud", "spec: {predictor: {sklearn: {storageUri: 'azure://a/b'}}}", "azure:// is not served; use pvc, s3, gs, hf, https, or oci"},
		{"a maximum below the minimum", "spec: {predictor: {minReplicas: 3, maxReplicas: 2, sklearn: {}}}", "less than minReplicas"},
		{"a time that is none", "metadata: {annotations: {berth.dev/scale-to-zero-after: soon}}\nspec: {predictor: {sklearn: {}}}", "is not a duration"},
		{"a rollout that is none", "metadata: {annotations: {berth.dev/rollout: fast}}\nspec: {predictor: {sklearn: {}}}", "use wait or stop-first"},
		{"a container without an image", "spec: {predictor: {containers: [{name: a}]}}", "has no image"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if c, why := children(t, tt.text); c != nil || !strings.Contains(why, tt.says) {
				t.Errorf("it says %q, want %q", why, tt.says)
			}
		})
	}
}

// container returns the container that serves, and the pod's spec.
func container(t *testing.T, c *serving.Children) (server, pod map[string]any) {
	t.Helper()
	raw, err := json.Marshal(c.Deployment)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Spec struct{ Template struct{ Spec map[string]any } }
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	pod = d.Spec.Template.Spec
	return pod["containers"].([]any)[0].(map[string]any), pod
}

// TestImages has KServe's rule for the variants of images (UpdateImageTag).
func TestImages(t *testing.T) {
	gpu := "resources: {limits: {nvidia.com/gpu: 1}}"
	for _, tt := range []struct{ name, predictor, want string }{
		{"without GPUs", "tensorflow: {}", "tensorflow/serving:2.14.1"},
		{"with GPUs", "tensorflow: {" + gpu + "}", "tensorflow/serving:2.14.1-gpu"},
		{"with a MIG device", "tensorflow: {resources: {limits: {nvidia.com/mig-1g.5gb: 1}}}", "tensorflow/serving:2.14.1-gpu"},
		{"with a version of the user's", "tensorflow: {runtimeVersion: 2.13.0-gpu, " + gpu + "}", "tensorflow/serving:2.13.0-gpu"},
		{"of a server with one image for both", "triton: {" + gpu + "}", "nvcr.io/nvidia/tritonserver:23.05-py3"},
		{"of the user's own", "sklearn: {image: 'own@sha256:00', " + gpu + "}", "own@sha256:00"},
		{"of TorchServe", "pytorch: {" + gpu + "}", "pytorch/torchserve-kfs:0.9.0-gpu"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, why := children(t, "spec: {predictor: {"+tt.predictor+"}}")
			if c == nil {
				t.Fatal(why)
			}
			if server, _ := container(t, c); server["image"] != tt.want {
				t.Errorf("the image is %v, want %s", server["image"], tt.want)
			}
		})
	}
}

// TestADownloadAsksForNoGPU has the trap of a LimitRange that gives GPUs to each container that says nothing of them.
func TestADownloadAsksForNoGPU(t *testing.T) {
	c, why := children(t, "spec: {predictor: {sklearn: {storageUri: 's3://models/iris'}}}")
	if c == nil {
		t.Fatal(why)
	}
	server, pod := container(t, c)
	fetch := pod["initContainers"].([]any)[0].(map[string]any)
	if limits := fetch["resources"].(map[string]any)["limits"].(map[string]any); limits["nvidia.com/gpu"] != "0" {
		t.Errorf("its limits are %v", limits)
	}
	if diff := cmp.Diff([]any{"s3://models/iris", "/mnt/models"}, fetch["args"]); diff != "" {
		t.Error(diff)
	}
	if mount := server["volumeMounts"].([]any)[0].(map[string]any); mount["readOnly"] != true || mount["mountPath"] != "/mnt/models" {
		t.Errorf("the server has %v", mount)
	}
}

// TestWhatAPodKeeps has fields that no type here has, the merge of a runtime's and a model's container, and what does not start a new revision.
func TestWhatAPodKeeps(t *testing.T) {
	c, why := children(t, "spec: {predictor: {nodeSelector: {a: b}, fieldOfTomorrow: 1, model: {modelFormat: {name: huggingface}, args: [--dtype=half], env: [{name: A, value: b}], newField: 2, resources: {limits: {memory: 9Gi}}}}}")
	if c == nil {
		t.Fatal(why)
	}
	server, pod := container(t, c)
	if pod["fieldOfTomorrow"] != float64(1) || server["newField"] != float64(2) {
		t.Errorf("fields are lost: %v %v", pod, server)
	}
	if diff := cmp.Diff([]any{"--model_name=mnist-model", "--dtype=half"}, server["args"]); diff != "" {
		t.Error(diff)
	}
	limits := server["resources"].(map[string]any)["limits"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"cpu": "1", "memory": "9Gi"}, limits); diff != "" {
		t.Error(diff)
	}
	again, _ := children(t, "metadata: {annotations: {berth.dev/rollout: stop-first, serving.kserve.io/stop: 'true', berth.dev/user: ada}}\nspec: {predictor: {minReplicas: 0, maxReplicas: 3, nodeSelector: {a: b}, fieldOfTomorrow: 1, model: {modelFormat: {name: huggingface}, args: [--dtype=half], env: [{name: A, value: b}], newField: 2, resources: {limits: {memory: 9Gi}}}}}")
	if again.Revision != c.Revision {
		t.Error("how it scales starts a new revision")
	}
}

// TestKServesSamples has predictors of KServe's samples (docs/samples in its repository), by their facts.
func TestKServesSamples(t *testing.T) {
	for _, tt := range []struct{ name, predictor, args string }{
		{"sklearn-iris", "sklearn: {storageUri: 'gs://kfserving-examples/models/sklearn/1.0/model'}", "--model_name=mnist-model --model_dir=/mnt/models --http_port=8080"},
		{"xgboost-iris", "model: {modelFormat: {name: xgboost}, storageUri: 'gs://kfserving-examples/models/xgboost/iris'}", "--model_name=mnist-model --model_dir=/mnt/models --http_port=8080 --nthread=1"},
		{"lightgbm-iris", "lightgbm: {storageUri: 'gs://kfserving-examples/models/lightgbm/iris'}", "--model_name=mnist-model --model_dir=/mnt/models --http_port=8080 --nthread=1"},
		{"flower-sample", "model: {modelFormat: {name: tensorflow}, storageUri: 'gs://kfserving-examples/models/tensorflow/flowers'}", "--model_name=mnist-model --port=9000 --rest_api_port=8080 --model_base_path=/mnt/models --rest_api_timeout_in_ms=60000"},
		{"torchscript-cifar10", "triton: {storageUri: 'gs://kfserving-examples/models/torchscript', runtimeVersion: 20.10-py3, env: [{name: OMP_NUM_THREADS, value: '1'}]}", "tritonserver --model-store=/mnt/models --grpc-port=9000 --http-port=8080 --allow-grpc=true --allow-http=true"},
		{"torchserve", "model: {modelFormat: {name: pytorch}, protocolVersion: v2, storageUri: 'gs://kfserving-examples/models/torchserve/image_classifier/v2'}", "torchserve --start --model-store=/mnt/models/model-store --ts-config=/mnt/models/config/config.properties"},
		{"huggingface-llama3", "model: {modelFormat: {name: huggingface}, args: ['--model_id=meta-llama/meta-llama-3-8b-instruct'], resources: {limits: {nvidia.com/gpu: '1'}}}", "--model_name=mnist-model --model_id=meta-llama/meta-llama-3-8b-instruct"},
		{"custom-model", "containers: [{name: kserve-container, image: 'custom:1', args: [--x]}]", "--x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, why := children(t, "spec: {predictor: {"+tt.predictor+"}}")
			if c == nil {
				t.Fatal(why)
			}
			server, _ := container(t, c)
			var args []string
			for _, a := range server["args"].([]any) {
				args = append(args, a.(string))
			}
			if got := strings.Join(args, " "); got != tt.args {
				t.Errorf("its arguments are %s, want %s", got, tt.args)
			}
		})
	}
}

// TestTheDownloadUsesTheSecretsOfItsServiceAccount has Secrets of KServe's, which the pod reads, and Berth does not.
func TestTheDownloadUsesTheSecretsOfItsServiceAccount(t *testing.T) {
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "models", Annotations: map[string]string{"serving.kserve.io/s3-endpoint": "minio.store:9000", "serving.kserve.io/s3-usehttps": "0", "serving.kserve.io/s3-region": "eu-central-1"}},
		Secrets:    []corev1.ObjectReference{{Name: "models-token-abcde"}, {Name: "keys"}, {Name: "more"}},
	}
	for _, tt := range []struct {
		name, uri string
		env       []string
		google    bool
	}{
		{"S3", "s3://b/iris", []string{"AWS_ACCESS_KEY_ID", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_SECRET_ACCESS_KEY", "S3_ENDPOINT", "S3_USE_HTTPS"}, false},
		{"Google Cloud Storage", "gs://b/iris", []string{"AWS_ACCESS_KEY_ID", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "S3_ENDPOINT", "S3_USE_HTTPS"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, fault := serving.Of(service(t, "spec: {predictor: {serviceAccountName: models, sklearn: {storageUri: '"+tt.uri+"'}}}"))
			if fault != nil || w.Account() != "models" {
				t.Fatal(fault, w.Account())
			}
			w.Use(serving.CredentialsOf(account), "berth-fetch:local")
			r, fault := serving.Choose(w, builtin(t))
			if fault != nil {
				t.Fatal(fault)
			}
			c, err := serving.Build(w, r, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			server, pod := container(t, c)
			download := pod["initContainers"].([]any)[0].(map[string]any)
			if download["image"] != "berth-fetch:local" {
				t.Errorf("the image is %v", download["image"])
			}
			var names []string
			for _, e := range download["env"].([]any) {
				e := e.(map[string]any)
				names = append(names, e["name"].(string))
				if e["name"] == "AWS_ENDPOINT_URL" && e["value"] != "http://minio.store:9000" {
					t.Errorf("the server is %v", e["value"])
				}
			}
			if diff := cmp.Diff(tt.env, names); diff != "" {
				t.Error(diff)
			}
			raw, _ := json.Marshal(download["envFrom"])
			if want := `[{"secretRef":{"name":"keys"}},{"secretRef":{"name":"more"}}]`; string(raw) != want {
				t.Errorf("it reads %s", raw)
			}
			if mounts := download["volumeMounts"].([]any); len(mounts) != 1 && !tt.google || len(mounts) != 2 && tt.google {
				t.Errorf("it mounts %v", mounts)
			}
			if server["envFrom"] != nil {
				t.Error("the server gets the credentials too")
			}
		})
	}
}

func TestWhatNeedsNoCredentials(t *testing.T) {
	for uri, want := range map[string]string{"pvc://a/b": "", "oci://a/b:1": "", "s3://a/b": "default", "hf://a/b": "default"} {
		w, fault := serving.Of(service(t, "spec: {predictor: {sklearn: {storageUri: '"+uri+"'}}}"))
		if fault != nil || w.Account() != want {
			t.Errorf("%s: %q, %v", uri, w.Account(), fault)
		}
	}
}

// TestAModelInAnImageIsMounted has KServe's folder of images with models.
func TestAModelInAnImageIsMounted(t *testing.T) {
	c, why := children(t, "spec: {predictor: {sklearn: {storageUri: 'oci://registry.example.com/iris:1'}}}")
	if c == nil {
		t.Fatal(why)
	}
	server, pod := container(t, c)
	raw, _ := json.Marshal([]any{server["volumeMounts"], pod["volumes"], pod["initContainers"]})
	want := `[[{"mountPath":"/mnt/models","name":"kserve-provision-location","readOnly":true,"subPath":"models"}],[{"image":{"reference":"registry.example.com/iris:1"},"name":"kserve-provision-location"}],null]`
	if string(raw) != want {
		t.Errorf("the pod has %s", raw)
	}
}
