package can

import "testing"

func TestARefusedObjectIsNotCalledAPod(t *testing.T) {
	for _, tt := range []struct{ name, cause, want string }{
		{"its namespace is missing", `the API server refuses its pod: namespaces "ml" not found`, "namespace ml does not exist; create it first (kubectl create namespace ml), or write it before this object in the files"},
		{"a field that there is not", `the API server refuses its pod: unknown field "spec.x"`, `the API server refuses it: unknown field "spec.x"`},
		{"something else named namespaces is missing", `the API server refuses its pod: quota of namespaces "ml" not found`, `the API server refuses it: quota of namespaces "ml" not found`},
		{"a quota, which counts pods", "quota q of namespace ml refuses its pod: no GPUs left", "quota q of namespace ml refuses its pod: no GPUs left"},
	} {
		if got := ofObject(tt.cause); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
