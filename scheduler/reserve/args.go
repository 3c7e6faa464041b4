package reserve

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// DefaultAfter is how long a pod has waited, as a rule, before a place is kept for it.
const DefaultAfter = 10 * time.Second

// Args are the arguments of the plugin, in the scheduler's configuration.
type Args struct {
	// ReserveAfter is how long a pod has waited before a place is kept for it, such as
	// "10s"; "0s" keeps none.
	ReserveAfter string `json:"reserveAfter"`
}

// ReadArgs reads Args; without any it is DefaultAfter.
func ReadArgs(args runtime.Object) (time.Duration, error) {
	raw, ok := args.(*runtime.Unknown)
	if !ok || len(raw.Raw) == 0 {
		return DefaultAfter, nil
	}
	var read Args
	if err := json.Unmarshal(raw.Raw, &read); err != nil {
		return 0, fmt.Errorf("read the arguments of reservations: %w", err)
	}
	if read.ReserveAfter == "" {
		return DefaultAfter, nil
	}
	after, err := time.ParseDuration(read.ReserveAfter)
	if err != nil || after < 0 {
		return 0, fmt.Errorf("reserveAfter %q is not a valid duration such as 10s, or 0s for no reservations", read.ReserveAfter)
	}
	return after, nil
}
