package request

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// WarningUnequal is said of an object whose pods Kubernetes refuses when its controller creates them.
const WarningUnequal = "a container requests GPUs unlike its limit, or without one: Kubernetes refuses such pods when they are created, because GPUs are not overcommitted; " +
	"write the limit alone, which is the request too"

// Unequal reports whether a container requests a GPU resource without a limit, or unlike it. Kubernetes refuses such
// containers, as it does of all extended resources.
func Unequal[N ~string](limits, requests map[N]resource.Quantity) bool {
	for name, q := range requests {
		if limit, there := limits[name]; IsGPU(string(name)) && (!there || limit.Cmp(q) != 0) {
			return true
		}
	}
	return false
}

// UnequalIn is Unequal of all that stands under the name resources in an object of any kind, as decoded from JSON.
// Amounts that are not numbers are left to others.
func UnequalIn(object map[string]any) bool { return unequalIn(object, 0) }

// deepest is how deep objects are looked into.
const deepest = 30

func unequalIn(v any, depth int) bool {
	if depth > deepest {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for key, one := range v {
			if r, is := one.(map[string]any); is && (key == "resources" || key == "resourcesPerNode") && Unequal(amounts(r["limits"]), amounts(r["requests"])) {
				return true
			}
			if unequalIn(one, depth+1) {
				return true
			}
		}
	case []any:
		for _, one := range v {
			if unequalIn(one, depth+1) {
				return true
			}
		}
	}
	return false
}

// amounts reads the quantities of a mapping.
func amounts(v any) map[string]resource.Quantity {
	m, _ := v.(map[string]any)
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]resource.Quantity, len(m))
	for name, one := range m {
		switch one := one.(type) {
		case string:
			if q, err := resource.ParseQuantity(one); err == nil {
				out[name] = q
			}
		case int64:
			out[name] = *resource.NewQuantity(one, resource.DecimalSI)
		case float64:
			out[name] = *resource.NewQuantity(int64(one), resource.DecimalSI)
		}
	}
	return out
}
