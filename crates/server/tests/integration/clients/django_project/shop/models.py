from django.db import models


class Item(models.Model):
    name = models.CharField(max_length=50, unique=True)
    stock = models.IntegerField(default=0)


class Line(models.Model):
    item = models.ForeignKey(Item, on_delete=models.CASCADE)
    count = models.IntegerField()
