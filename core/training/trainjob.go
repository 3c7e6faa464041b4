package training

import "fmt"

// What conditions of TrainJobs say. Upstream sets those of the JobSet (pkg/constants of jobset 0.11) and
// three more (pkg/apis/trainer/v1alpha1 of trainer 2.2).
const (
	trainCompleted     = "jobset completed successfully"
	trainDeadline      = "TrainJob exceeded its active deadline"
	reasonDeadline     = "DeadlineExceeded"
	reasonNotSupported = "TrainingRuntimeNotSupported"
)

// trainReason returns the reason of a condition or an event of a TrainJob.
func trainReason(word string) string {
	switch word {
	case ConditionSucceeded:
		return "AllJobsCompleted"
	case ConditionFailed:
		return "FailedJobs"
	}
	return word
}

// trainFailed returns why a TrainJob failed that reached its backoff limit: it has one Job.
func trainFailed(name string) string {
	return fmt.Sprintf("jobset failed due to one or more job failures (first failed job: %s-node-0)", name)
}

// said returns the message of a job that is suspended or resumed.
func (p *pass) said(what string) string {
	if p.Job.Kind == TrainJob {
		return "TrainJob is " + what
	}
	return fmt.Sprintf("%s %s is %s.", p.Job.Kind, p.Job.Name, what)
}
