"""What edge devices and the service say to each other: releases, channels, enrolment, polls and reports."""
