insert into lab_flush values (1);
