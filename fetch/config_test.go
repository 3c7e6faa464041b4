package fetch

import (
	"strings"
	"testing"
)

func TestTheStorageConfigStandsForVariables(t *testing.T) {
	for _, tt := range []struct {
		name, config, over string
		want               map[string]string
		fails              string
	}{
		{"neither", "", "", map[string]string{"AWS_ACCESS_KEY_ID": "of the environment", "AWS_ENDPOINT_URL": ""}, ""},
		{
			"a key of the Secret", `{"type": "s3", "endpoint_url": "http://minio:9000", "access_key_id": "a", "secret_access_key": "b", "region": "r", "verify_ssl": "0", "anonymous": "true", "new": "c"}`, "",
			map[string]string{"AWS_ENDPOINT_URL": "http://minio:9000", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "r", "S3_VERIFY_SSL": "0", "awsAnonymousCredential": "true"},
			"",
		},
		{"parameters count over it", `{"region": "a", "access_key_id": "b"}`, `{"region": "c", "bucket": "d"}`, map[string]string{"AWS_DEFAULT_REGION": "c", "AWS_ACCESS_KEY_ID": "b"}, ""},
		{"what is not JSON", `{"secret_access_key": "hunter2"`, "", nil, "STORAGE_CONFIG cannot be read; it is JSON with texts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"STORAGE_CONFIG": tt.config, "STORAGE_OVERRIDE_CONFIG": tt.over, "AWS_ACCESS_KEY_ID": "of the environment"}
			getenv, err := configured(func(name string) string { return env[name] })
			if err != nil || tt.fails != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.fails) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("it says %v, want %q", err, tt.fails)
				}
				return
			}
			for name, want := range tt.want {
				if got := getenv(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}
