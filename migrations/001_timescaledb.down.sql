-- The extension stays: dropping it would take other databases' background workers along, and it holds nothing of ours.
SELECT 1;
