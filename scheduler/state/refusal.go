package state

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Refused says that the API server has answered that it did not bind: nothing
// of the request comes later.
func Refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}
