package serving_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestTheStorageOfAModel has KServe's storage spec (docs.samples storage/storageSpec), whose Secret the pod reads, and Berth does not.
func TestTheStorageOfAModel(t *testing.T) {
	for _, tt := range []struct{ name, note, storage, uri, env string }{
		{
			"a key, and where the bucket is", "", "{key: localMinIO, path: sklearn/mnist.joblib, parameters: {type: s3, bucket: models}}", "s3://models/sklearn/mnist.joblib",
			`[{"name":"STORAGE_CONFIG","valueFrom":{"secretKeyRef":{"key":"localMinIO","name":"storage-config"}}},{"name":"STORAGE_OVERRIDE_CONFIG","value":"{\"bucket\":\"models\",\"type\":\"s3\"}"}]`,
		},
		{
			"no key is the default one, if it is there", "", "{path: /iris/, parameters: {type: s3, bucket: b}}", "s3://b/iris",
			`[{"name":"STORAGE_CONFIG","valueFrom":{"secretKeyRef":{"key":"default_s3","name":"storage-config","optional":true}}},{"name":"STORAGE_OVERRIDE_CONFIG","value":"{\"bucket\":\"b\",\"type\":\"s3\"}"}]`,
		},
		{
			"another Secret, and a storageUri", "metadata: {annotations: {serving.kserve.io/storageSecretName: mine}}\n", "{key: k}, storageUri: 's3://b/iris'", "s3://b/iris",
			`[{"name":"STORAGE_CONFIG","valueFrom":{"secretKeyRef":{"key":"k","name":"mine"}}}]`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, why := children(t, tt.note+"spec: {predictor: {model: {modelFormat: {name: sklearn}, storage: "+tt.storage+"}}}")
			if c == nil {
				t.Fatal(why)
			}
			_, pod := container(t, c)
			download := pod["initContainers"].([]any)[0].(map[string]any)
			env, err := json.Marshal(download["env"])
			if err != nil || string(env) != tt.env || download["args"].([]any)[0] != tt.uri {
				t.Errorf("%v\n%s, want %s\n%s", download["args"], env, tt.uri, tt.env)
			}
		})
	}
}

func TestAStorageThatIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, model, says string }{
		{"what only the Secret says", "storage: {key: a, path: b}", "write parameters with type (s3) and bucket, or a storageUri: Berth reads no Secrets, so it does not see those in storage-config"},
		{"two places", "storage: {path: b}, storageUri: 's3://a/b'", "spec.predictor.model.storage.path and storageUri both say where the model is; keep one"},
		{"another store", "storage: {key: a, parameters: {type: hdfs, bucket: b}}", "is served for s3, and the model is at hdfs"},
		{"an unknown store", "storage: {key: a, parameters: {type: s4, bucket: b}}", "s4:// is not known; did you mean s3://?"},
		{"a schema", "storage: {key: a, schemaPath: b}", "storage.schemaPath is not served; use key, path, parameters"},
		{"a misspelled parameter", "storage: {key: a, parameters: {type: s3, buckt: b}}", "parameters.buckt is not known; did you mean bucket?"},
		{"a number", "storage: {key: a, parameters: {type: s3, bucket: 3}}", "parameters.bucket must be a text; write it in quotes"},
		{"a text", "storage: a", "spec.predictor.model.storage must be an object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if c, why := children(t, "spec: {predictor: {model: {modelFormat: {name: sklearn}, "+tt.model+"}}}"); c != nil || !strings.Contains(why, tt.says) {
				t.Errorf("it says %q, want %q", why, tt.says)
			}
		})
	}
}
