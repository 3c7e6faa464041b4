package fetch

import (
	"encoding/json"
	"fmt"
)

// configVariables are the variables that a key of KServe's Secret storage-config stands for (kserve_storage.py).
var configVariables = map[string]string{
	"endpoint_url": "AWS_ENDPOINT_URL", "access_key_id": "AWS_ACCESS_KEY_ID", "secret_access_key": "AWS_SECRET_ACCESS_KEY", "region": "AWS_DEFAULT_REGION",
	"ca_bundle": "AWS_CA_BUNDLE", "verify_ssl": "S3_VERIFY_SSL", "anonymous": "awsAnonymousCredential",
}

// configured returns an environment with what STORAGE_CONFIG and STORAGE_OVERRIDE_CONFIG say of S3, as KServe's initializer reads them: both are
// JSON, and of the same field the second counts. Errors do not repeat what they say, which has secrets.
func configured(getenv func(string) string) (func(string) string, error) {
	set := map[string]string{}
	for _, name := range []string{"STORAGE_CONFIG", "STORAGE_OVERRIDE_CONFIG"} {
		text := getenv(name)
		if text == "" {
			continue
		}
		var fields map[string]string
		if json.Unmarshal([]byte(text), &fields) != nil {
			return nil, fmt.Errorf(`%s cannot be read; it is JSON with texts, such as {"type": "s3", "endpoint_url": "https://HOST"}: correct the key of the Secret storage-config`, name)
		}
		for field, value := range fields {
			if variable := configVariables[field]; variable != "" {
				set[variable] = value
			}
		}
	}
	return func(name string) string {
		if value, ok := set[name]; ok {
			return value
		}
		return getenv(name)
	}, nil
}
